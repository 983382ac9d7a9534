"""Up to which instant all usage is stored, as spools tell while they are shipped."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection

from control.metering.backlog import OpenCall
from control.models import SpoolPosition

BEFORE_OPEN = timedelta(seconds=600)  # a call may wait before its gateway writes that it began
UNWRITTEN = timedelta(seconds=1)  # what ended may not be in the spool yet
QUIET = timedelta(seconds=10)  # between rows of an owner that has no news
BEHIND = timedelta(minutes=2)  # of an owner that nobody ships: worth telling
_TELL = (
    "INSERT INTO control_spoolposition"
    ' (owner, segment, "offset", at, read_until, stored_until, open_calls)'
    " VALUES (%(owner)s, 0, 0, %(at)s, %(read)s, %(stored)s, %(open)s)"
    " ON CONFLICT (owner) DO UPDATE SET at = excluded.at, open_calls = excluded.open_calls,"
    " read_until = greatest(control_spoolposition.read_until, excluded.read_until),"
    " stored_until = greatest(control_spoolposition.stored_until, excluded.stored_until)"
    " WHERE %(news)s OR control_spoolposition.read_until IS NULL"
    " OR control_spoolposition.read_until <= %(quiet)s"
)


@dataclass(frozen=True)
class Stored:
    """Calls that ended before `ended`, and those that started before `started`, are stored."""

    started: datetime
    ended: datetime
    slowest: str  # whose spool holds them back; empty, where there is none
    owners: int
    open_calls: int


def tell(owner: str, at: datetime, calls: Iterable[OpenCall], *, news: bool) -> None:
    """The spool was read to its end at that instant, and all that it held is stored."""
    starts = [call.open.started_at for call in calls]
    first = min((datetime.fromtimestamp(start, UTC) for start in starts), default=at)
    named = {
        "owner": owner,
        "at": at,
        "read": at - UNWRITTEN,
        "stored": min(first, at - BEFORE_OPEN),
        "open": len(starts),
        "news": news,
        "quiet": at - QUIET,
    }
    with connection.cursor() as cursor:
        cursor.execute(_TELL, named)


def stored(at: datetime) -> Stored:
    """Of all spools the slowest tells. One whose host is gone stays until its spool comes."""
    rows = list(SpoolPosition.objects.order_by("owner"))
    slowest = min(rows, key=lambda row: row.read_until or row.at - QUIET, default=None)
    return Stored(
        started=min(
            (row.stored_until or row.at - BEFORE_OPEN for row in rows), default=at - BEFORE_OPEN
        ),
        ended=(slowest.read_until or slowest.at - QUIET) if slowest else at - UNWRITTEN,
        slowest=slowest.owner if slowest else "",
        owners=len(rows),
        open_calls=sum(row.open_calls for row in rows),
    )


def stored_until(at: datetime) -> datetime:
    """Calls that started before it have ended, and are events."""
    return stored(at).started


def behind(at: datetime) -> list[SpoolPosition]:
    """Spools that nobody ships any more: their host, or their gateway's parent, is away."""
    return list(SpoolPosition.objects.filter(at__lt=at - BEHIND).order_by("at"))
