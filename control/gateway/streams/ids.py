"""The token ids of one answer so far, as an engine's stream tells them: what it can go on from."""

import re
from typing import Any

import msgspec

from control.gateway.streams.chunks import Choice, Chunk

_LIST = re.compile(rb"\[\s*(\d[\d,\s]*)\]")
_MEMBERS = ("token_ids", "prompt_token_ids")


class TokenIds:
    """Kept as the JSON text they came in: a number costs its digits, and nothing to read."""

    def __init__(self, bytes_max: int, *, shown: bool) -> None:
        self.shown = shown  # the tenant asked for them itself
        self.prompt = b""
        self.made = bytearray()  # each with a comma before it
        self.usable = True
        self._bytes_max = bytes_max

    @property
    def count(self) -> int:
        return self.made.count(b",")

    def add(self, ids: bytes | None, *, thought: bool) -> None:
        """Of one chunk with content. What a reasoning parser took apart cannot be gone on with."""
        if ids is None or thought or len(self.made) > self._bytes_max:
            self.usable = False
        else:
            self.made += b","
            self.made += ids

    def begin(self, prompt: bytes | None) -> None:
        """With what the engine made of the prompt, if it says so."""
        if prompt:
            self.prompt = prompt
            self.usable &= len(prompt) <= self._bytes_max

    def read(self, chunk: Chunk) -> None:
        """Of a chunk that was decoded."""
        for choice in chunk.choices or ():
            self.begin(_between(chunk.prompt_token_ids or choice.prompt_token_ids))
            ids = _between(choice.token_ids)
            if ids or choice.has_content() and choice.finish_reason is None:
                self.add(ids, thought=_is_odd(choice))


def without_ids(data: bytes, *, usage: bool) -> bytes:
    """A chunk less the members with token ids, and its usage if so asked; the rest stays."""
    members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    drop(members)
    if usage:
        members.pop("usage", None)
    if (raw := members.get("choices", b"null")) != b"null":
        choices = msgspec.json.decode(raw, type=list[dict[str, msgspec.Raw]])
        for choice in choices:
            drop(choice)
        members["choices"] = choices
    return msgspec.json.encode(members)


def drop(members: dict[str, Any]) -> None:
    for name in _MEMBERS:
        members.pop(name, None)


def _between(raw: msgspec.Raw) -> bytes | None:
    found = _LIST.fullmatch(bytes(raw)) if raw else None
    return found.group(1).rstrip() if found else None


def _is_odd(choice: Choice) -> bool:
    """Tokens that are not the answer's plain text: a parser made something else of them."""
    if choice.text is not None:
        return False
    if choice.delta is None or choice.finish_reason is None and "content" not in choice.delta:
        return True
    return any(value for name, value in choice.delta.items() if name not in ("role", "content"))
