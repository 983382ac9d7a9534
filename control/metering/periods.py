"""Periods of budgets: days and months of a tenant's own calendar, as instants."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from control import checks

MONTH = "month"
_MONTH_TEXT = re.compile(r"(2[0-9]{3})-(0[1-9]|1[0-2])")


class Period(NamedTuple):
    """From an instant until another, which is the first of the next."""

    begins_at: datetime
    ends_at: datetime


def period_of(at: datetime, period: str, timezone: str) -> Period:
    """The calendar's, however many hours a day of it has."""
    zone = ZoneInfo(timezone)
    first = _first(at.astimezone(zone).date(), period)
    found = _between(first, period, zone)
    if found.ends_at <= at:  # midnight comes twice tonight: the first one counts
        found = _between(_next(first, period), period, zone)
    return found


def _between(first: date, period: str, zone: ZoneInfo) -> Period:
    return Period(midnight(first, zone), midnight(_next(first, period), zone))


def _first(day: date, period: str) -> date:
    return day.replace(day=1) if period == MONTH else day


def _next(first: date, period: str) -> date:
    if period != MONTH:
        return first + timedelta(days=1)
    return (first + timedelta(days=31)).replace(day=1)


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """One that is skipped is when the clock jumps over it."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def year_and_month(text: str) -> tuple[int, int]:
    found = _MONTH_TEXT.fullmatch(text)
    if not found:
        raise checks.refuse("month", f"{text!r} is no month: write year and month, as in 2026-11")
    return int(found[1]), int(found[2])
