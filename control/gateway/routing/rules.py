"""Which replica serves a call: a target by weight, then a replica by the route's policy."""

from collections.abc import Iterable, Sequence

import msgspec

from control.gateway.routing import policies
from control.gateway.routing.candidates import Candidate, Figures, Pick
from control.gateway.waiting.rules import Pace


class Option(msgspec.Struct, gc=False):
    """One target of a route, with the replicas of its deployment that are ready."""

    deployment: str
    weight: int
    replicas: Sequence[Candidate]


class Chosen(msgspec.Struct, frozen=True, gc=False):
    replica: Candidate
    deployment: str
    why: str
    figures: tuple[Figures, ...]


class Full(msgspec.Struct, frozen=True, gc=False):
    """Ready replicas exist, all their slots are taken: worth waiting for."""

    figures: tuple[Figures, ...] = ()


class NoneReady(msgspec.Struct, frozen=True, gc=False):
    reason: str
    figures: tuple[Figures, ...] = ()


Choice = Chosen | Full | NoneReady


class Candidates(msgspec.Struct, frozen=True, gc=False):
    """Who there was for a call that was refused, whether or not one of them was asked for."""

    figures: tuple[Figures, ...]


def choose(options: Sequence[Option], pick: Pick, now: float) -> Choice:
    """The figures of all candidates are taken down before anything moves."""
    able = [option for option in options if option.weight > 0]
    figures = _figures(able)
    open_ = [(option, free) for option in able if (free := _free(option.replicas, pick, now))]
    if not open_:
        if any(_worth_waiting(option, pick) for option in able):
            return Full(figures)
        return NoneReady(_why_none(options), figures)
    option, free = open_[0] if len(open_) == 1 else _by_weight(open_, pick.tie)
    replica, why = policies.choose(pick, option.replicas, free, now)
    return Chosen(replica, option.deployment, why, figures)


def choose_of_one(deployment: str, replicas: Sequence[Candidate], pick: Pick, now: float) -> Choice:
    """As `choose`, of a single target with a weight: as most routes have."""
    if len(replicas) == 1 and not pick.tried and not pick.calm:
        only = replicas[0]
        figures = (only.figures(),)
        if only.has_room(pick):
            return Chosen(only, deployment, policies.ALONE, figures)
    else:
        figures = tuple([replica.figures() for replica in replicas])
        if free := _free(replicas, pick, now):
            replica, why = policies.choose(pick, replicas, free, now)
            return Chosen(replica, deployment, why, figures)
    option = Option(deployment, 1, replicas)
    return (
        Full(figures) if _worth_waiting(option, pick) else NoneReady(_why_none([option]), figures)
    )


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


def _free(replicas: Sequence[Candidate], pick: Pick, now: float) -> list[Candidate]:
    free = [replica for replica in replicas if replica.has_room(pick)]
    if pick.tried:
        free = [replica for replica in free if replica.id not in pick.tried]
    if pick.calm:
        free = [replica for replica in free if not replica.saturated(now)]
    return free


def _worth_waiting(option: Option, pick: Pick) -> bool:
    return any(
        (r.slots > 0 or r.coming or r.lent) and r.id not in pick.tried for r in option.replicas
    )


def _by_weight(
    options: list[tuple[Option, list[Candidate]]], tie: int
) -> tuple[Option, list[Candidate]]:
    point = tie % sum([option.weight for option, _ in options])
    for option, free in options:
        point -= option.weight
        if point < 0:
            return option, free
    raise AssertionError("the weights sum to more than the point")


def _figures(options: Sequence[Option]) -> tuple[Figures, ...]:
    return tuple([replica.figures() for option in options for replica in option.replicas])


def _why_none(options: Sequence[Option]) -> str:
    if not options:
        return "the route has no target"
    names = ", ".join(option.deployment for option in options)
    if any(option.replicas for option in options):
        return f"no replica of {names} answers"
    return f"no replica of {names} is ready"
