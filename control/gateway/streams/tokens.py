"""The commonest event of all, one token of one choice as vLLM writes it, read without decoding."""

import re

# So strict that they can mean one thing only; whatever differs in one byte is decoded as JSON.
# What comes before the delta's first name is the same for all events of a stream.
_BEGINNING = re.compile(
    rb'\{"id":"[\w.:-]*","object":"[\w.]*","created":\d+,"model":"[\w.:/-]*",'
    rb'"choices":\[\{"index":0,"delta":\{"'
)
# Groups: which text, the member of token ids, these, usage, its input and its output.
_TOKEN = re.compile(
    rb'(content|reasoning)":"(?:[^"\\\x00-\x1f]++|\\[n"\\t])++"\},'
    rb'"logprobs":null,"finish_reason":null(,"token_ids":(?:null|\[(\d[\d,]*+)\]))?+\}\]'
    rb'(?:,"usage":(\{"prompt_tokens":(\d{1,9}+),"total_tokens":\d{1,9}+,'
    rb'"completion_tokens":(\d{1,9}+)\}))?+\}\n\n'
)
_USAGE_BYTES = len(b',"usage":')

Found = re.Match[bytes]


def beginning_of(chunk: bytes) -> bytes:
    """Of all events like this chunk's; nothing if they have to be decoded."""
    found = _BEGINNING.match(chunk)
    return b"data: " + found[0] if found else b""


def token_in(event: bytes, beginning: bytes) -> Found | None:
    """One token, in an event that begins so; None for all else, also for two of them."""
    if not beginning or not event.startswith(beginning):
        return None
    found = _TOKEN.fullmatch(event, len(beginning))
    return found if found and (event.isascii() or _is_text(event)) else None


def without_ids(event: bytes, found: Found) -> bytes:
    """Without usage too, as both are at the end."""
    return event[: found.start(2)] + b"}]}\n\n"


def without_usage(event: bytes, found: Found) -> bytes:
    return event[: found.start(4) - _USAGE_BYTES] + b"}\n\n"


def _is_text(event: bytes) -> bool:
    try:
        event.decode()
    except UnicodeDecodeError:
        return False
    return True
