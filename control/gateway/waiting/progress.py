"""What a call that waits is told: its place, and about how long yet. Values in, a comment out."""

import math
from typing import NamedTuple

from control.gateway.waiting import rules
from control.gateway.waiting.rules import Pace, Waiting
from control.states import Priority


class Place(NamedTuple):
    """The turn that will be a call's own, of so many that wait."""

    turn: int
    of: int


def place(waiting: Waiting, priority: Priority, tenant: int, ahead: int) -> Place:
    """`ahead`: calls of its own tenant and priority that came before it."""
    before = {other: count for other, count in waiting[priority].items() if other != tenant}
    if ahead:
        before[tenant] = ahead
    turns = rules.turns_until({**waiting, priority: before}, priority, tenant)
    of = sum(sum(counts.values()) for counts in waiting.values())
    return Place(min(math.ceil(turns), of), of)


def comment(
    where: Place, pace: Pace | None, *, is_loading: bool, start_seconds: float | None = None
) -> bytes:
    """A line that every reader of event streams passes over."""
    queued = f"queued {where.turn} of {where.of}"
    if is_loading:
        took = f" (a start takes about {start_seconds:.0f} s)" if start_seconds else ""
        text = f"the model is loading{took}, {queued}"
    elif pace is None:
        text = queued
    else:
        text = f"{queued}, about {where.turn * pace.seconds:.1f} s"
    return f": {text}\n\n".encode()
