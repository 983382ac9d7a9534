"""The commonest call of all, a chat in plain text: judged as a whole while it is decoded."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from control.gateway.wire import SPACE_BEFORE_COLON, Ask

ENDPOINT = "chat.completions"
_BYTES_MAX = 64 * 1024  # it is decoded twice
_DEPTH = 4
_INT_BYTES = 3  # of text, as every whole number counts


class _Message(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    role: Literal["user", "assistant", "system", "developer"]
    content: str


class _StreamOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class _Chat(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Narrower than `members.ALLOWED`: what does not fit is judged there, member by member."""

    model: Annotated[str, Meta(min_length=1, max_length=512)]
    messages: Annotated[list[_Message], Meta(min_length=1, max_length=10_000)]
    stream: bool = False
    max_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] = 0
    stream_options: _StreamOptions = _StreamOptions()


_chat = msgspec.json.Decoder(_Chat).decode
_members = msgspec.json.Decoder(dict[str, Any]).decode


def read(raw: bytes, *, depth_max: int) -> Ask | None:
    """As `wire.parse` reads it; None for all else, which is for that one to judge."""
    if len(raw) > _BYTES_MAX or depth_max < _DEPTH:
        return None
    try:
        chat = _chat(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    fields = _members(raw)
    options = fields.get("stream_options")
    count = len(fields) + 2 * len(chat.messages) + (len(options) if options else 0)
    # A text with more names than members, most likely a repeated one.
    if raw.count(b'":') != count or SPACE_BEFORE_COLON.search(raw):
        return None
    if None in fields.values() or options and not chat.stream:
        return None
    text_bytes = _text_bytes(chat, fields)
    del fields["model"]
    fields.pop("max_tokens", None)
    fields.pop("stream_options", None)
    told = chat.stream_options
    return Ask(
        ENDPOINT,
        chat.model,
        chat.stream,
        told.include_usage,
        told.continuous_usage_stats,
        1,
        None,
        chat.max_tokens,
        text_bytes,
        fields,
        ENDPOINT,
    )


def _text_bytes(chat: _Chat, fields: dict[str, Any]) -> int:
    model = chat.model
    total = len(model) if model.isascii() else len(model.encode())
    for message in chat.messages:
        content = message.content
        total += len(message.role)
        total += len(content) if content.isascii() else len(content.encode())
    for value in fields.values():
        if type(value) is int:
            total += _INT_BYTES
    return total
