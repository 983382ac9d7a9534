"""What a device's time is spent on: lines that sum to all of it, to the microsecond."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TypeVar

from control.metering.cost.rules import rounded
from control.states import ReplicaState

PARTS_PER_MILLION = 10**6
NOBODY = 0  # stands for a replica where none held the device

Key = TypeVar("Key")


class Line(StrEnum):
    """In the order in which they are shown."""

    BUSY = "busy"  # with a tenant's running call
    FAILURE = "failure"  # calls, and tries of calls, that the platform did not bring to an end
    PLATFORM = "platform"  # busy, with no call of a tenant: probes, and what nobody told yet
    IDLE = "idle"  # could serve and had nothing to
    LOADING = "loading"
    WARM_UP = "warm_up"
    DRAIN = "drain"
    SLEEP = "sleep"  # of engines that gave their memory up, for what they still hold
    CRASH = "crash"  # ended in failure, or lost, and its memory is not back yet
    QUARANTINE = "quarantine"
    FREE = "free"  # unallocated: no launch held it
    UNSEEN = "unseen"  # paid for, while its host or its worker was away


TITLES = {
    Line.BUSY: "Serving, busy",
    Line.FAILURE: "Failed work",
    Line.PLATFORM: "Busy with no tenant's call",
    Line.IDLE: "Serving, idle",
    Line.LOADING: "Loading",
    Line.WARM_UP: "Warm-up",
    Line.DRAIN: "Drain",
    Line.SLEEP: "Sleep",
    Line.CRASH: "Crashed",
    Line.QUARANTINE: "Quarantine",
    Line.FREE: "Unallocated",
    Line.UNSEEN: "Unseen",
}
_OF_STATE = {
    ReplicaState.READY: Line.IDLE,
    ReplicaState.UNHEALTHY: Line.IDLE,
    ReplicaState.WARMING: Line.WARM_UP,
    ReplicaState.DRAINING: Line.DRAIN,
    ReplicaState.ASLEEP: Line.SLEEP,
    ReplicaState.STOPPED: Line.DRAIN,
    ReplicaState.FAILED: Line.CRASH,
    ReplicaState.LOST: Line.CRASH,
}
SERVING = frozenset({ReplicaState.READY, ReplicaState.UNHEALTHY, ReplicaState.DRAINING})
ALLOCATED = frozenset(Line) - {Line.QUARANTINE, Line.FREE, Line.UNSEEN}
WORKED = frozenset({Line.BUSY, Line.FAILURE, Line.PLATFORM})
FAILURE_AND_IDLE = frozenset(Line) - {Line.BUSY}  # the fifth part of a cost


@dataclass(frozen=True)
class Holder:
    """A launch that holds memory of a device, and for how much of the time it had a call."""

    replica_id: int
    state: ReplicaState
    memory_bytes: int
    busy_ratio: float

    @property
    def busy_parts(self) -> int:
        """Of a million, so that no float comes near a sum. Only one that serves has calls."""
        if self.state not in SERVING:
            return 0
        return round(min(max(self.busy_ratio, 0.0), 1.0) * PARTS_PER_MILLION)


def line_of(state: ReplicaState) -> Line:
    """What its time is when it has no call. Before it warms up it is loading."""
    return _OF_STATE.get(state, Line.LOADING)


def split(
    microseconds: int, holders: Iterable[Holder], *, quarantined: bool
) -> dict[tuple[Line, int], int]:
    """One device's time: use by busy time, the rest by the memory that each set aside.

    Where two are busy at once, the time is theirs in the proportion of their busy times.
    """
    holders = list(holders)
    if not holders:
        line = Line.QUARANTINE if quarantined else Line.FREE
        return {(line, NOBODY): microseconds}
    busy = sum(holder.busy_parts for holder in holders)
    whole = max(busy, PARTS_PER_MILLION)
    memory = sum(holder.memory_bytes for holder in holders)
    weights: dict[tuple[Line, int], Fraction] = defaultdict(Fraction)
    for holder in holders:
        weights[Line.BUSY, holder.replica_id] += holder.busy_parts
        share = Fraction(holder.memory_bytes, memory) if memory else Fraction(1, len(holders))
        weights[line_of(holder.state), holder.replica_id] += (whole - busy) * share
    return {key: part for key, part in whole_parts(microseconds, weights).items() if part}


def whole_parts(whole: int, weights: Mapping[Key, Fraction | int]) -> dict[Key, int]:
    """Whole numbers in proportion to weights, which sum to `whole` exactly.

    What is left of rounding down goes one each to those that lost most; of equals to the first.
    """
    total = sum(weights.values(), Fraction(0))
    if not total:
        return {}
    exact = {key: whole * Fraction(weight) / total for key, weight in weights.items()}
    parts = {key: share.numerator // share.denominator for key, share in exact.items()}
    left = whole - sum(parts.values())
    by_loss = sorted(parts, key=lambda key: exact[key] - parts[key], reverse=True)
    for key in by_loss[:left]:
        parts[key] += 1
    return parts


def percents(parts: Mapping[Key, int | Fraction], places: int = 2) -> dict:
    """Of the whole, rounded so that what is shown sums to 100 visibly."""
    whole = sum(parts.values())
    if not whole:
        return {}
    return rounded({key: Fraction(part * 100) / whole for key, part in parts.items()}, places)


def unseen_microseconds(period: int, seen: Iterable[int]) -> int:
    """What of a device's hour is on no line of its own."""
    return max(0, period - sum(seen))
