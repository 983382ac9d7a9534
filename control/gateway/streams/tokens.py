"""The commonest event of all, one token of one choice as vLLM writes it, read without decoding."""

import re

import msgspec

from control.gateway.streams.chunks import Usage

# So strict that it can mean one thing only; whatever differs in one byte is decoded as JSON.
_TOKEN = re.compile(
    rb'data: (\{"id":"[\w.:-]*","object":"[\w.]*","created":\d+,"model":"[\w.:/-]*",'
    rb'"choices":\[\{"index":0,"delta":\{"(content|reasoning)":"(?:[^"\\\x00-\x1f]|\\[n"\\t])+"\},'
    rb'"logprobs":null,"finish_reason":null(,"token_ids":(?:null|\[(\d[\d,]*)\]))?\}\]'
    rb'(?:,"usage":(\{"prompt_tokens":(\d{1,9}),"total_tokens":\d{1,9},'
    rb'"completion_tokens":(\d{1,9})\}))?\})\n\n'
)
_MEMBER_BYTES = len(b',"usage":')


class Token(msgspec.Struct, frozen=True, gc=False):
    """`data` is the chunk; `bare` the event less its usage and, if asked, its token ids."""

    data: bytes
    bare: bytes
    usage_raw: bytes
    usage: Usage | None
    ids: bytes | None  # as JSON has them, between the brackets
    thought: bool


def token_of(event: bytes, *, strip_ids: bool = False) -> Token | None:
    """None if it is anything else, or more than one event."""
    found = _TOKEN.fullmatch(event)
    if found is None or not _is_text(event):
        return None
    data, field, member, ids, raw, tokens_in, tokens_out = found.groups()
    if strip_ids and member is not None:
        bare = event[: found.start(3)] + b"}]}\n\n"
    elif raw is None:
        bare = event
    else:
        bare = event[: found.start(5) - _MEMBER_BYTES] + b"}\n\n"
    if raw is None:
        return Token(data, bare, b"", None, ids, field == b"reasoning")
    usage = Usage(int(tokens_in), 0, int(tokens_out), 0)
    return Token(data, bare, raw, usage, ids, field == b"reasoning")


def _is_text(event: bytes) -> bool:
    try:
        event.decode()
    except UnicodeDecodeError:
        return False
    return True
