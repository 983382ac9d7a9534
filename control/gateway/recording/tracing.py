"""Which calls are kept to be looked at later, and what of them."""

from dataclasses import fields, is_dataclass
from math import ceil
from typing import Any, NamedTuple

import msgspec

from control.gateway.limits import Limits
from control.states import Outcome
from control.telemetry.traces import Try

FAILED, SLOW, RETRIED, REFUSED, SAMPLED = "failed", "slow", "retried", "refused", "sampled"
_CODES = 1 << 32  # of the last 32 bits of a call's id, which are chance
_DECISIONS_BYTES_MAX = 16 * 1024  # a line of the spool holds 64 KiB
_NOT_FAILED = (Outcome.COMPLETE, Outcome.INCOMPLETE, Outcome.CLIENT_CLOSED, Outcome.REJECTED)


class Seen(NamedTuple):
    """What of a call tells whether it is worth a look. Seconds are from its arrival."""

    outcome: Outcome
    status: int
    first_token_seconds: float | None
    total_seconds: float
    tries: int


class Marks:
    """When a call's stages ended, by the clock that never jumps; 0.0 is not yet."""

    __slots__ = ("admitted_at", "decisions", "flags", "read_at", "routed_at", "tries", "turn_at")

    def __init__(self, read_at: float) -> None:
        self.read_at = read_at
        self.admitted_at = self.turn_at = self.routed_at = 0.0
        self.decisions: list[object] = []
        self.flags: tuple[str, ...] = ()
        self.tries: list[Try] = []


def is_sampled(call_id: str, share: float) -> bool:
    """By the id alone, so that everybody who meets the call agrees."""
    return call_id[-8:] < sampled_below(share)


def sampled_below(share: float) -> str:
    """Whose last eight digits come before this one are sampled."""
    codes = ceil(share * _CODES)
    return f"{codes:08x}" if codes < _CODES else "g"


def is_fast(seconds: float, limits: Limits) -> bool:
    """All of it took less than any part may."""
    return seconds <= min(limits.slow_first_token_seconds, limits.slow_call_seconds)


def why_kept(sampled: bool, seen: Seen, limits: Limits) -> str:
    """Nothing, for most calls."""
    if seen.outcome not in _NOT_FAILED or seen.status >= 500:
        return FAILED
    if seen.tries:
        return RETRIED
    first = seen.first_token_seconds
    if seen.total_seconds > limits.slow_call_seconds:
        return SLOW
    if first is not None and first > limits.slow_first_token_seconds:
        return SLOW
    return SAMPLED if sampled else ""


def recorded(decisions: list[object]) -> list[dict[str, Any]]:
    """As they are written down; those that have no more room say so."""
    records, room = [], _DECISIONS_BYTES_MAX
    for decision in decisions:
        record = _record(decision)
        size = len(msgspec.json.encode(record))
        room -= size
        records.append(record if room >= 0 else {"decision": "too long", "bytes": size})
    return records


def _record(decision: object) -> dict[str, Any]:
    return {"decision": type(decision).__name__} | _plain(decision)


def _plain(value: Any) -> Any:
    """Members by name, for whoever reads it; of a thing that lives on, its id."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")  # which no table takes, and anybody may send
    if isinstance(value, int | float | None):
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: _plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple | list | set | frozenset):
        return [_plain(one) for one in value]
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value.id if hasattr(value, "id") else str(value)


class Room:
    """How many traces of refused calls may still be written in this second, or in so many."""

    def __init__(self, most: int, *, seconds: int = 1) -> None:
        self._most = most
        self._seconds = seconds
        self._span = 0
        self._left = 0

    def take(self, now: float) -> bool:
        span = int(now) // self._seconds
        if span != self._span:
            self._span, self._left = span, self._most
        self._left -= 1
        return self._left >= 0
