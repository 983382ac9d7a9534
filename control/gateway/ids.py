"""Ids of calls: UUIDv7, so that they sort by time and name their month."""

import random

_VARIANT, _LOW = 0x2 << 62, (1 << 62) - 1


def call_id(at_seconds: float) -> str:
    """`req_` and 32 hex digits: 48 bits of milliseconds, version, variant, 74 bits of chance."""
    # Ids are no secrets: they must differ, between processes too, which each seed their own.
    chance = random.getrandbits(74)
    first, last = 0x7000 | chance >> 62, _VARIANT | chance & _LOW
    return f"req_{int(at_seconds * 1000):012x}{first:04x}{last:016x}"
