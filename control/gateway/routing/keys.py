"""What a call comes back for: the beginning of its prompt, or its conversation."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

BLOCK_BYTES = 512
_KEY_BYTES = 8  # enough for an order; a collision only sends two prefixes to one replica


def prefix_key(fields: dict[str, Any], salt: bytes, blocks: int) -> int | None:
    """Of the first whole blocks, so that prompts agree that differ in what follows them.

    A prompt below one block is a key by itself. None where there is no text at all.
    """
    room = blocks * BLOCK_BYTES
    parts, size = [], 0
    for part in _parts(fields):
        parts.append(part[: room - size])
        size += len(parts[-1])
        if size >= room:
            break
    if not size:
        return None
    text = b"".join(parts)
    whole = len(text) // BLOCK_BYTES * BLOCK_BYTES
    return _hashed(text[: whole or None], salt)


def conversation_key(name: bytes, salt: bytes) -> int:
    return _hashed(name, salt)


def replica_seed(deployment: str, id_: int) -> int:
    """The same in every process, and through every launch: its place in all orders is its own."""
    return _hashed(f"{deployment}/{id_}".encode(), b"replica")


def key_salt(tenant_id: int, route: str, *, shared: bool) -> bytes:
    """Tenants do not meet in each other's caches, unless the prefix is the operator's."""
    return b"route:" + route.encode()[:48] if shared else b"tenant:%d" % tenant_id


def _hashed(text: bytes, salt: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=_KEY_BYTES, key=salt[:64]).digest())


def _parts(fields: dict[str, Any]) -> Iterator[bytes]:
    """The text that an engine reads first, in its order; no more is touched than is asked for."""
    prompt = fields.get("prompt", fields.get("input"))
    if prompt is not None:
        yield from _texts(prompt)
    system = fields.get("system", fields.get("instructions"))
    if system is not None:
        yield from _texts(system)
    for message in fields.get("messages", ()):
        yield message["role"].encode() + b"\0"
        yield from _texts(message.get("content"))
        yield b"\0"


def _texts(content: Any) -> Iterator[bytes]:
    if isinstance(content, str):
        yield content.encode()
    elif isinstance(content, list):
        for part in content:
            yield part.encode() if isinstance(part, str) else msgspec.json.encode(part) + b","
