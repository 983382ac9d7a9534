"""Ids of calls: UUIDv7, so that they sort by time and name their month."""

import random

_FIXED = 0x7 << 76 | 0x2 << 62  # version and variant
_CHANCE = (1 << 76) - 1 ^ 0x3 << 62


def call_id(at_seconds: float) -> str:
    """`req_` and 32 hex digits: 48 bits of milliseconds, version, variant, 74 bits of chance."""
    # Ids are no secrets: they must differ, between processes too, which each seed their own.
    chance = random.getrandbits(76) & _CHANCE
    return f"req_{int(at_seconds * 1000) << 80 | _FIXED | chance:032x}"
