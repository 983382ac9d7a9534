"""When a deployment's replicas are to be replaced by new launches of the same version (pure)."""

from dataclasses import asdict, dataclass
from typing import Any

from control import checks
from control.checks import Problem

CALLS_MIN, CALLS_MAX = 100, 10**12  # sooner, a deployment would do little but load its model
HOURS_MIN, HOURS_MAX = 0.5, 24 * 365
GROWTH_MIN, GROWTH_MAX = 0.1, 100


@dataclass(frozen=True)
class Recycle:
    """Whichever comes first; None is never.

    `host_memory_growth`: the share by which its processes hold more of the host's memory than
    when it became ready; 0.5 is half as much again.
    """

    calls: int | None = None
    hours: float | None = None
    host_memory_growth: float | None = None


def stored(wanted: Recycle | None) -> dict[str, float] | None:
    """As it is kept; None if nothing is wanted."""
    if wanted is None:
        return None
    return {name: value for name, value in asdict(wanted).items() if value is not None} or None


def of(kept: dict[str, Any] | None) -> Recycle | None:
    return Recycle(**kept) if kept else None


def problems(field: str, wanted: Recycle | None) -> list[Problem]:
    if wanted is None:
        return []
    found = []
    if wanted.calls is not None:
        found += checks.whole(f"{field}.calls", wanted.calls, CALLS_MIN, CALLS_MAX)
    if wanted.hours is not None:
        found += checks.between(f"{field}.hours", wanted.hours, HOURS_MIN, HOURS_MAX)
    if wanted.host_memory_growth is not None:
        growth = wanted.host_memory_growth
        found += checks.between(f"{field}.host_memory_growth", growth, GROWTH_MIN, GROWTH_MAX)
    return found
