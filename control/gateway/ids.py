"""Ids of calls: UUIDv7, so that they sort by time and name their month."""

import random


def call_id(at_seconds: float) -> str:
    """`req_` and 32 hex digits: 48 bits of milliseconds, version, variant, 74 bits of chance."""
    # Ids are no secrets: they must differ, between processes too, which each seed their own.
    value = int(at_seconds * 1000) << 80 | random.getrandbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return f"req_{value:032x}"
