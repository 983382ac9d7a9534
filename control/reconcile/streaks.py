"""Probes of an external engine in a row, and where they move its replica (pure)."""

from dataclasses import dataclass

from control.states import ReplicaState

PROBES_GOOD = 2
PROBES_BAD = 3


@dataclass(frozen=True)
class Streak:
    """Probes of an external engine in a row."""

    good: int = 0
    bad: int = 0


def streak(before: Streak | None, good: bool) -> Streak:
    before = before or Streak()
    return Streak(good=before.good + 1) if good else Streak(bad=before.bad + 1)


def after_probe(state: ReplicaState, row: Streak) -> ReplicaState | None:
    """Where an external engine's replica moves, if anywhere."""
    if row.good >= PROBES_GOOD and state in (ReplicaState.STARTING, ReplicaState.UNHEALTHY):
        return ReplicaState.READY
    if row.bad >= PROBES_BAD and state is ReplicaState.READY:
        return ReplicaState.UNHEALTHY
    return None
