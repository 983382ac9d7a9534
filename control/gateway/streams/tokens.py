"""The commonest event of all, one token of one choice as vLLM writes it, read without decoding."""

import re

import msgspec

from control.gateway.streams.chunks import Usage

# So strict that it can mean one thing only; whatever differs in one byte is decoded as JSON.
_TOKEN = re.compile(
    rb'data: (\{"id":"[\w.:-]*","object":"[\w.]*","created":\d+,"model":"[\w.:/-]*",'
    rb'"choices":\[\{"index":0,"delta":\{"(?:content|reasoning)":"(?:[^"\\\x00-\x1f]|\\[n"\\t])+"\},'
    rb'"logprobs":null,"finish_reason":null(?:,"token_ids":null)?\}\]'
    rb'(?:,"usage":(\{"prompt_tokens":(\d{1,9}),"total_tokens":\d{1,9},'
    rb'"completion_tokens":(\d{1,9})\}))?\})\n\n'
)
_MEMBER_BYTES = len(b',"usage":')


class Token(msgspec.Struct, frozen=True, gc=False):
    """`data` is the chunk, `without_usage` the event that is left when usage is taken out."""

    data: bytes
    without_usage: bytes
    usage_raw: bytes
    usage: Usage | None


def token_of(event: bytes) -> Token | None:
    """None if it is anything else, or more than one event."""
    found = _TOKEN.fullmatch(event)
    if found is None or not _is_text(event):
        return None
    data, raw, tokens_in, tokens_out = found.groups()
    if raw is None:
        return Token(data, event, b"", None)
    usage = Usage(int(tokens_in), 0, int(tokens_out), 0)
    return Token(data, event[: found.start(2) - _MEMBER_BYTES] + b"}\n\n", raw, usage)


def _is_text(event: bytes) -> bool:
    try:
        event.decode()
    except UnicodeDecodeError:
        return False
    return True
