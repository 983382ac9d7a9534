"""The commonest call of all, a chat in plain text: judged as a whole while it is decoded."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from control.gateway.bodies.wire import SPACE_BEFORE_COLON, Ask

ENDPOINT = "chat.completions"
_BYTES_MAX = 64 * 1024  # one that is streamed is decoded twice
_DEPTH = 4
_INT_BYTES = 3  # of text, as every whole number counts


class Message(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    role: Literal["user", "assistant", "system", "developer"]
    content: str


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    include_usage: bool | UnsetType = UNSET
    continuous_usage_stats: bool | UnsetType = UNSET


# As they were written: a whole number stays one.
_Temperature = Annotated[int, Meta(ge=0, le=2)] | Annotated[float, Meta(ge=0, le=2)]
_Share = Annotated[int, Meta(gt=0, le=1)] | Annotated[float, Meta(gt=0, le=1)]


class Chat(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Narrower than `members.ALLOWED`: what does not fit is judged there, member by member.

    `cache_salt` is ours to set: what brings one does not fit.
    """

    model: Annotated[str, Meta(min_length=1, max_length=512)]
    messages: Annotated[list[Message], Meta(min_length=1, max_length=10_000)]
    stream: bool | UnsetType = UNSET
    max_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] | UnsetType = UNSET
    temperature: _Temperature | UnsetType = UNSET
    top_p: _Share | UnsetType = UNSET
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | UnsetType = UNSET
    stream_options: StreamOptions | UnsetType = UNSET
    cache_salt: str | UnsetType = UNSET


_chat = msgspec.json.Decoder(Chat).decode
_members = msgspec.json.Decoder(dict[str, Any]).decode


def read(raw: bytes, *, depth_max: int) -> Ask | None:
    """As `wire.parse` reads it; None for all else, which is for that one to judge."""
    chat = judged(raw, depth_max=depth_max)
    return None if chat is None else ask_of(chat, raw)


def judged(raw: bytes, *, depth_max: int) -> Chat | None:
    if len(raw) > _BYTES_MAX or depth_max < _DEPTH:
        return None
    try:
        chat = _chat(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    members = _count(chat)
    # If there are colons in texts too, those behind a quote are looked at.
    if raw.count(b":") != members and (
        # A text with more names than members, most likely a repeated one.
        raw.count(b'":') != members or SPACE_BEFORE_COLON.search(raw)
    ):
        return None
    if chat.stream_options and not chat.stream or chat.cache_salt is not UNSET:
        return None
    return chat


def ask_of(chat: Chat, raw: bytes) -> Ask:
    """`raw` is what was judged."""
    fields = _members(raw)
    del fields["model"]
    fields.pop("max_tokens", None)
    told = fields.pop("stream_options", {})
    return Ask(
        ENDPOINT,
        chat.model,
        chat.stream is True,
        told.get("include_usage") is True,
        told.get("continuous_usage_stats") is True,
        1,
        None,
        None if chat.max_tokens is UNSET else chat.max_tokens,
        text_bytes(chat),
        fields,
        ENDPOINT,
    )


def text_bytes(chat: Chat) -> int:
    """Of all that an engine reads as text, or might."""
    model = chat.model
    total = len(model) if model.isascii() else len(model.encode())
    for message in chat.messages:
        content = message.content
        total += len(message.role)
        total += len(content) if content.isascii() else len(content.encode())
    for value in (chat.max_tokens, chat.temperature, chat.top_p, chat.seed):
        if type(value) is int:
            total += _INT_BYTES
    return total


def _count(chat: Chat) -> int:
    """Of members that were given, at whatever depth."""
    count = 2 + 2 * len(chat.messages)
    for value in (chat.stream, chat.max_tokens, chat.temperature, chat.top_p, chat.seed):
        if value is not UNSET:
            count += 1
    options = chat.stream_options
    if options is not UNSET:
        count += 1 + (options.include_usage is not UNSET)
        count += options.continuous_usage_stats is not UNSET
    return count
