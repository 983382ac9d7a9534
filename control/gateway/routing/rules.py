"""Which replica serves a call: a target by weight, then the least loaded of its replicas."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from control.gateway.waiting.rules import Pace


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A replica as this process sees it. `slots` is what it may take now: 0 is none at all."""

    id: int
    slots: int
    in_flight: int


class Option(msgspec.Struct, frozen=True, gc=False):
    """One target of a route, with the replicas of its deployment that are ready."""

    deployment: str
    weight: int
    replicas: tuple[Candidate, ...]


@dataclass(frozen=True)
class Chosen:
    deployment: str
    replica_id: int


@dataclass(frozen=True)
class Full:
    """Ready replicas exist, all their slots are taken: worth waiting for."""


@dataclass(frozen=True)
class NoneReady:
    reason: str


def choose(options: list[Option], tie: int) -> Chosen | Full | NoneReady:
    """`tie` is a number by chance, at least 32 bits: it picks the target and breaks ties."""
    able = [option for option in options if option.weight > 0]
    open_ = [option for option in able if _free(option)]
    if not open_:
        return Full() if any(_usable(option) for option in able) else NoneReady(_why_none(options))
    option = open_[0] if len(open_) == 1 else _by_weight(open_, tie)
    free = _free(option)
    if len(free) == 1:
        return Chosen(option.deployment, free[0].id)
    least = min([replica.in_flight / replica.slots for replica in free])
    equal = [replica for replica in free if replica.in_flight / replica.slots == least]
    return Chosen(option.deployment, equal[(tie >> 16) % len(equal)].id)


def pace(sizes: Iterable[tuple[int, Pace | None]]) -> Pace | None:
    """Seconds from one end of a call to the next while all slots are taken.

    `sizes` are slots, and how long a call holds one. Not from the ends of the last seconds: as
    long as slots are free, those say how much was asked.
    """
    ends, spread = 0.0, 0.0
    for slots, held in sizes:
        if slots and not (held and held.seconds):
            return None
        if slots:
            ends += slots / held.seconds
            spread = max(spread, held.spread_seconds / held.seconds)
    return Pace(1 / ends, spread / ends) if ends else None


def slots_now(slots: int, processes: int, *, ejected: bool, on_trial: bool) -> int:
    """What one gateway process may use: its share, one call to prove itself, or nothing."""
    if ejected:
        return 0
    return 1 if on_trial else max(slots // processes, 1)


def _usable(option: Option) -> list[Candidate]:
    return [replica for replica in option.replicas if replica.slots > 0]


def _free(option: Option) -> list[Candidate]:
    return [replica for replica in option.replicas if replica.in_flight < replica.slots]


def _by_weight(options: list[Option], tie: int) -> Option:
    point = tie % sum(option.weight for option in options)
    for option in options:
        point -= option.weight
        if point < 0:
            return option
    raise AssertionError("the weights sum to more than the point")


def _why_none(options: list[Option]) -> str:
    if not options:
        return "the route has no target"
    names = ", ".join(option.deployment for option in options)
    if any(option.replicas for option in options):
        return f"no replica of {names} answers"
    return f"no replica of {names} is ready"
