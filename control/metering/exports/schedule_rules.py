"""Which month's file of a schedule is due. Pure."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

MONTH, DAY = "month", "day"
EVERY = (MONTH, DAY)
RETRY_AFTER = timedelta(minutes=30)  # what could not be written


class Due(NamedTuple):
    """A month as it is named, and until when the schedule is done with it."""

    month: str
    until: datetime


def due(
    every: str,
    begins_at: datetime,
    done_until: datetime | None,
    tried_at: datetime | None,
    error: str,
    at: datetime,
) -> Due | None:
    if error and tried_at is not None and at < tried_at + RETRY_AFTER:
        return None
    if every == DAY:
        midnight = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        if done_until is not None and done_until >= midnight:
            return None
        # The first of a month is when the whole month before can be told.
        return Due(f"{midnight - timedelta(seconds=1):%Y-%m}", midnight)
    month = _first(done_until or begins_at)
    following = _first(month + timedelta(days=32))
    return Due(f"{month:%Y-%m}", following) if following <= at else None


def _first(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
