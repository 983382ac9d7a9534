"""When two on one card hurt each other: the younger moves away. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from control.placement.wanted import Objective

TTFT_MS_DEFAULT = 2000
TPOT_MS_DEFAULT = 100
POINTS_MIN = 6  # of ten seconds: a minute of calls, so that one slow prompt moves nobody
MISSED_RATIO = 0.8  # of the points with calls
RECOVERED_RATIO = 0.2  # of them may still miss it when the one that was to move may stay


@dataclass(frozen=True)
class Latency:
    """Ten seconds of one replica; None: no call in them."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None


@dataclass(frozen=True)
class Neighbour:
    """A ready replica on a shared card."""

    replica_id: int
    name: str
    ready_at_seconds: float  # epoch; the one that came first stays
    objective: Objective | None = None
    lately: tuple[Latency, ...] = ()
    leaving: str = ""  # why it is marked to move away already


@dataclass(frozen=True)
class MoveAway:
    replica_id: int
    reason: str


def judge(device: str, neighbours: Sequence[Neighbour]) -> MoveAway | None:
    """The youngest leaves a card on which one misses its objective for a minute."""
    if len(neighbours) < 2 or any(it.leaving for it in neighbours):
        return None
    if sum(map(_is_busy, neighbours)) < 2:
        return None  # one that works alone is slow by itself
    for neighbour in sorted(neighbours, key=lambda it: it.ready_at_seconds):
        if missed := _missed(neighbour):
            youngest = max(neighbours, key=lambda it: (it.ready_at_seconds, it.replica_id))
            return MoveAway(
                youngest.replica_id, f"moves away from {device}: {neighbour.name} there {missed}"
            )
    return None


def recovered(neighbours: Sequence[Neighbour]) -> list[Neighbour]:
    """Those that were to move away, and may stay: all are busy, and all have what they want again.

    It takes two minutes of calls that fare well: a card that is idle proves nothing.
    """
    marked = [it for it in neighbours if it.leaving]
    busy = [it for it in neighbours if _is_busy(it)]
    if not marked or len(busy) < 2 or not all(map(_fares_well, busy)):
        return []
    return marked


def _fares_well(neighbour: Neighbour) -> bool:
    wanted = neighbour.objective or Objective()
    first = [point.ttft_ms for point in neighbour.lately if point.ttft_ms is not None]
    later = [point.tpot_ms for point in neighbour.lately if point.tpot_ms is not None]
    if max(len(first), len(later)) < POINTS_MIN:
        return False
    return _few_over(first, wanted.ttft_ms or TTFT_MS_DEFAULT) and _few_over(
        later, wanted.tpot_ms or TPOT_MS_DEFAULT
    )


def _few_over(points: Sequence[float], most_ms: int) -> bool:
    return sum(point > most_ms for point in points) <= RECOVERED_RATIO * len(points)


def _is_busy(neighbour: Neighbour) -> bool:
    return sum(it.ttft_ms is not None or it.tpot_ms is not None for it in neighbour.lately) > 1


def _missed(neighbour: Neighbour) -> str:
    wanted, lately = neighbour.objective or Objective(), neighbour.lately
    first = [point.ttft_ms for point in lately]
    later = [point.tpot_ms for point in lately]
    return _over("TTFT", first, wanted.ttft_ms or TTFT_MS_DEFAULT) or _over(
        "TPOT", later, wanted.tpot_ms or TPOT_MS_DEFAULT
    )


def _over(name: str, points: Sequence[float | None], most_ms: int) -> str:
    told = [point for point in points if point is not None]
    over = [point for point in told if point > most_ms]
    if len(told) < POINTS_MIN or len(over) < MISSED_RATIO * len(told):
        return ""
    middle = sorted(over)[len(over) // 2]
    return f"has a {name} of {middle:.0f} ms where {most_ms} ms are wanted"
