"""The events of a stream that is like most others, as vLLM writes them: read without decoding."""

import re

# So strict that they can mean one thing only; whatever differs in one byte is decoded as JSON.
_HEAD = rb'\{"id":"[\w.:-]*","object":"[\w.]*","created":\d+,"model":"[\w.:/-]*","choices":\['
# What comes before the delta's first name is the same for all events of a stream.
_BEGINNING = _HEAD + rb'\{"index":0,"delta":\{"'
_IDS = rb"(?:null|\[(\d[\d,]*+)\])"
_USAGE = (
    rb'(?:,"usage":(\{"prompt_tokens":(\d{1,9}+),"total_tokens":\d{1,9}+,'
    rb'"completion_tokens":(\d{1,9}+)(?:,"completion_tokens_details":null)?+\}))?+'
)
_TEXT = rb'(?:[^"\\\x00-\x1f]++|\\[n"\\t])'
_IDS_AND_USAGE = rb'(,"token_ids":%b)?+\}\]%b\}\n\n' % (_IDS, _USAGE)

_beginning = re.compile(_BEGINNING)
# Groups: which text, the member of token ids, these, usage, its input and its output.
_token = re.compile(
    rb'(content|reasoning)":"%b++"\},"logprobs":null,"finish_reason":null%b'
    % (_TEXT, _IDS_AND_USAGE)
)
# Of the last token the same, but for the first group: why it is the last.
_last = re.compile(
    rb'content":"%b*+"\},"logprobs":null,"finish_reason":"([a-z_]++)"(?:,"stop_reason":null)?+%b'
    % (_TEXT, _IDS_AND_USAGE)
)
# Groups: the beginning, the choices' end, usage, its input and its output, the member of the
# prompt's token ids, and these.
_role = re.compile(
    rb'data: (%b)role":"assistant","content":""\},"logprobs":null,"finish_reason":null\}\]()%b'
    rb'(,"prompt_token_ids":%b)?+(?:,"prompt_text":null)?+\}\n\n' % (_BEGINNING, _USAGE, _IDS)
)
# Its group is usage, which is to be decoded.
_usage_alone = re.compile(
    rb'data: %b\],"usage":(\{[^{}\r\n]*+(?:\{[^{}\r\n]*+\}[^{}\r\n]*+)*+\})'
    rb'(?:,"system_fingerprint":"[\w.-]*+")?+\}\n\n' % _HEAD
)
_USAGE_BYTES = len(b',"usage":')

Found = re.Match[bytes]


def beginning_of(chunk: bytes) -> bytes:
    """Of all events like this chunk's; nothing if they have to be decoded."""
    found = _beginning.match(chunk)
    return b"data: " + found[0] if found else b""


def token_in(event: bytes, beginning: bytes) -> Found | None:
    """One token, in an event that begins so; None for all else, also for two of them."""
    if not beginning or not event.startswith(beginning):
        return None
    found = _token.fullmatch(event, len(beginning))
    return found if found and (event.isascii() or _is_text(event)) else None


def last_in(event: bytes, beginning: bytes) -> Found | None:
    """The last token, likewise; its text may be empty."""
    if not event.startswith(beginning):
        return None
    found = _last.fullmatch(event, len(beginning))
    return found if found and (event.isascii() or _is_text(event)) else None


role_in = _role.fullmatch  # with which a stream begins
usage_in = _usage_alone.fullmatch  # behind the last token


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
