"""When batch gives its slots to those who wait for one: values in, a decision out."""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

_PATIENCE_SPENT = 0.5  # of its limit: then an interactive call is worth another's lost work

T = TypeVar("T")


class Stay(NamedTuple):
    """Of one call in the queue."""

    since: float
    until: float  # the end of its patience
    guess_seconds: float | None = None  # within which it was to have its turn


def is_urgent(stay: Stay, now: float) -> bool:
    return now - stay.since >= _PATIENCE_SPENT * (stay.until - stay.since)


def who_yields(urgent: int, running: Iterable[tuple[T, bool]]) -> list[T]:
    """Of batch calls that run, oldest first, each with whether it may: a slot for each urgent one.

    The youngest has lost the least, and one whose tokens a tenant has received never yields.
    """
    able = [call for call, may in running if may]
    return able[: -urgent - 1 : -1] if urgent else []
