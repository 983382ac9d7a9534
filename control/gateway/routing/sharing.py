"""How the processes of a gateway share a replica's slots: values in, a number out."""

from collections.abc import Sequence
from typing import NamedTuple


class Other(NamedTuple):
    """Another process: slots that it holds, and how many its calls, running and waiting, need."""

    held: int
    need: int


def even(slots: int, processes: int) -> int:
    """What each holds while nobody waits; without Valkey one at least, or some would serve none."""
    return slots // processes


def level(slots: int, needs: Sequence[int]) -> int:
    """What each may hold at most so that slots go round and none is left while one is needed."""
    left, rest = slots, sorted(needs)
    for n, need in enumerate(rest):
        sharers = len(rest) - n
        if need * sharers >= left:
            return -(-left // sharers)
        left -= need
    return slots


def usable(slots: int, processes: int, need: int, others: Sequence[Other]) -> int:
    """Slots that a process may give to its calls; what it uses beyond is returned as they end."""
    if any(other.need > other.held for other in others):
        return min(need, level(slots, [need, *(other.need for other in others)]))
    return min(max(need, even(slots, processes)), slots)
