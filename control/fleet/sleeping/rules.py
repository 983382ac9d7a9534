"""Which engines may sleep, and whether one really does: by what its cards hold, not by its word."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from control.placement.memory import GIB, MIB
from control.placement.room import gib
from control.states import ReplicaState
from engines.kinds import KINDS

OFF = 0
LEFT_BYTES_MAX = 4 * GIB  # on a card: what a process keeps of itself, its context and graphs
LEFT_RATIO_MAX = 0.5  # of what it held: a small model that keeps all of it does not sleep
MARGIN_BYTES = 256 * MIB  # booked beside what is left: readings go up and down
RAM_KEPT_BYTES = GIB  # of its host, that weights do not take
SETTLE_SECONDS = 3.0  # for the driver to show what an engine has given back

TRAP = "a CPU engine answers that it sleeps and frees nothing: it is stopped instead"


@dataclass(frozen=True)
class Asleep:
    """`left_bytes`: what its processes still hold, by device."""

    left_bytes: Mapping[str, int]


@dataclass(frozen=True)
class Waits:
    """It says that it sleeps, and its driver does not show it yet."""


@dataclass(frozen=True)
class Kept:
    """It has to be stopped instead."""

    reason: str


def unable(engine_kind: str, replicas_min: int, device_kinds: Collection[str]) -> str:
    """Why a deployment cannot sleep; `device_kinds` of where it may run, none if nobody joined."""
    kind = KINDS.get(engine_kind)
    if kind is None or not kind.sleeps:
        return f"an engine of kind {engine_kind} cannot sleep: leave it out"
    if replicas_min:
        return "only the last replica sleeps, and replicas.min keeps it: set that to 0"
    if device_kinds and "gpu" not in device_kinds:
        return "no node where it may run has a card, and a CPU engine frees nothing: leave it out"
    return ""


def short_of_ram(weights_bytes: int, available_bytes: int) -> str:
    """Empty if its host can hold the weights."""
    if weights_bytes + RAM_KEPT_BYTES <= available_bytes:
        return ""
    return (
        f"its weights take {gib(weights_bytes)} of the host's RAM, of which "
        f"{gib(available_bytes)} are available"
    )


def judge(
    held: Mapping[str, int], now: Mapping[str, int | None], answered_at: datetime, at: datetime
) -> Asleep | Waits | Kept:
    """`held` before it was asked to sleep, `now` as its driver says; None: it cannot be read."""
    reason = next(filter(None, (_kept(held[uuid], now.get(uuid)) for uuid in held)), "")
    if not held:
        reason = TRAP
    if not reason:
        return Asleep({uuid: now[uuid] or 0 for uuid in held})
    # Not negative: a clock that was put back must not make it wait for as long.
    if held and 0 <= (at - answered_at).total_seconds() < SETTLE_SECONDS:
        return Waits()
    return Kept(reason)


def _kept(held: int, now: int | None) -> str:
    if not held:
        return "its driver does not show what it holds, so nobody can see it sleep"
    if now is None:
        return "its card cannot be read, so nobody can see it sleep"
    if now > min(LEFT_BYTES_MAX, held * LEFT_RATIO_MAX):
        return f"it answers that it sleeps and still holds {gib(now)} of {gib(held)}"
    return ""


def no_room(
    held: Mapping[str, int], now: Mapping[str, int | None], free: Mapping[str, int | None]
) -> str:
    """Why what it gave back cannot be taken again; empty if it is all there."""
    for uuid, before in held.items():
        has = free.get(uuid)
        if has is None:
            return f"card {uuid} cannot be read"
        if (needs := before - (now.get(uuid) or 0)) > has:
            return f"{gib(has)} are free on {uuid} and it needs {gib(needs)}: others took it"
    return ""


def returns_to(state: ReplicaState, awake: Mapping | None, level: int) -> ReplicaState | None:
    """Of one that was lost: to sleep, or to its end if nobody knows how far it was; None: awake."""
    if state is not ReplicaState.LOST or awake is None:
        return None
    slept = level and awake.get("asleep")
    return ReplicaState.ASLEEP if slept else ReplicaState.DRAINING
