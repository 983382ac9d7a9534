"""Looking into a streamed chunk or a whole answer, and cutting a member out by its position."""

import re
from typing import Any

import msgspec

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],]', re.DOTALL)


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens as the engine reports them; cached and reasoning ones are subsets."""

    input: int
    cached: int
    output: int
    reasoning: int


class Choice(msgspec.Struct):
    index: int = 0
    delta: dict[str, Any] | None = None
    text: str | None = None
    finish_reason: str | None = None
    token_ids: msgspec.Raw = msgspec.Raw()
    prompt_token_ids: msgspec.Raw = msgspec.Raw()  # of a completion; a chat's chunk has them

    def has_content(self) -> bool:
        """Anything beyond a role and the empty members that come with it: reasoning counts too."""
        if self.finish_reason is not None or self.text:
            return True
        if not self.delta:
            return False
        if self.delta.get("content"):
            return True
        return any(value for name, value in self.delta.items() if name != "role")


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class ToldUsage(msgspec.Struct):
    """As engines write it."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class Whole(msgspec.Struct):
    """What Weir reads of an answer that is not streamed."""

    choices: list[Choice] | None = None
    usage: ToldUsage | None = None
    error: Any = None
    prompt_token_ids: msgspec.Raw = msgspec.Raw()


class Chunk(msgspec.Struct):
    """What Weir reads of a chunk, or of an answer; all else passes unread."""

    choices: list[Choice] | None = None
    usage: msgspec.Raw = msgspec.Raw()
    error: Any = None
    prompt_token_ids: msgspec.Raw = msgspec.Raw()


_chunk = msgspec.json.Decoder(Chunk).decode
_usage = msgspec.json.Decoder(ToldUsage).decode
_whole = msgspec.json.Decoder(Whole).decode


def look(data: bytes) -> Chunk | None:
    """None if it is not JSON; an odd type in one member does not hide the others."""
    try:
        return _chunk(data)
    except msgspec.ValidationError:
        return _look_leniently(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def look_whole(data: bytes) -> Whole | None:
    """An answer as nearly all are; None for all else, which is for `look` to understand."""
    try:
        return _whole(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _look_leniently(data: bytes) -> Chunk | None:
    try:
        members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    error = members.get("error", msgspec.Raw(b"null"))
    return Chunk(None, members.get("usage", msgspec.Raw()), msgspec.json.decode(error))


def usage_of(chunk: Chunk) -> Usage | None:
    raw = chunk.usage
    return None if not raw or raw == b"null" else usage_in(raw)


def usage_in(raw: bytes | msgspec.Raw) -> Usage | None:
    """None if it is not what engines write, or no JSON."""
    try:
        return usage_from(_usage(raw))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def usage_from(seen: ToldUsage) -> Usage:
    tokens_in, tokens_out = seen.prompt_tokens or 0, seen.completion_tokens or 0
    if tokens_in < 0 or tokens_out < 0:
        tokens_in, tokens_out = max(tokens_in, 0), max(tokens_out, 0)
    cached = reasoning = 0
    if details := seen.prompt_tokens_details:
        cached = min(max(details.cached_tokens or 0, 0), tokens_in)
    if details := seen.completion_tokens_details:
        reasoning = min(max(details.reasoning_tokens or 0, 0), tokens_out)
    return Usage(tokens_in, cached, tokens_out, reasoning)


def without_member(data: bytes, name: str, value: bytes | msgspec.Raw) -> bytes:
    """The same object less one top-level member; every other byte stays as it came.

    `value` is that member's own text.
    """
    # Followed by the last brace alone, so it belongs to the outermost object. Engines put it there.
    tail = b',"%b":%b}' % (name.encode(), value)
    if data.endswith(tail):
        return data[: -len(tail)] + b"}"
    return _without_member_scanned(data, name)


def _without_member_scanned(data: bytes, name: str) -> bytes:
    depth = begin = 0
    key: bytes | None = None
    for token in _TOKEN.finditer(data):
        text = token.group()
        if depth == 1 and text in (b",", b"}"):
            if key is not None and msgspec.json.decode(key) == name:
                return _cut(data, begin, token.start(), text)
            begin, key = token.end(), None
        elif depth == 1 and key is None and text[0] == 0x22:
            key = text
        if text in (b"{", b"["):
            depth += 1
            begin = token.end() if depth == 1 else begin
        elif text in (b"}", b"]"):
            depth -= 1
    return data


def _cut(data: bytes, begin: int, end: int, ended_by: bytes) -> bytes:
    """One comma goes with the member: the one after it, or before it if it was the last."""
    if ended_by == b",":
        return data[:begin] + data[end + 1 :].lstrip(b" ")
    before = data[:begin].rstrip()
    return (before[:-1] if before.endswith(b",") else before) + data[end:]
