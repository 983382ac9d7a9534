"""Sums, postings and hours of cost made anew from events and device time, which are the truth."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction

from control import checks
from control.metering import ledger, rollups
from control.metering.books.facts import OWED
from control.metering.cost import hours as cost_hours
from control.metering.ledger import PostingWanted, TransferWanted
from control.models.audit import record
from control.states import LedgerAccount

DAY = timedelta(days=1)
# Storing writes events before it comes here: its sums are in, or wait and are added after.
_LOCK = "LOCK TABLE control_usagehour IN SHARE ROW EXCLUSIVE MODE"
_SPAN = (
    "SELECT least((SELECT min(started_at) FROM control_usageevent),"
    " (SELECT min(hour) FROM control_usagehour)),"
    " greatest((SELECT max(started_at) FROM control_usageevent),"
    " (SELECT max(hour) FROM control_usagehour))"
)
_COLUMNS = rollups.COLUMN_LIST
_STORED = f"SELECT {_COLUMNS} FROM control_usagehour WHERE hour >= %(since)s AND hour < %(until)s"
_WRONG = f"SELECT count(*) FROM (({_STORED}) EXCEPT ({rollups.OF_EVENTS})) wrong"
_MISSING = f"SELECT count(*) FROM (({rollups.OF_EVENTS}) EXCEPT ({_STORED})) missing"
_DELETE = "DELETE FROM control_usagehour WHERE hour >= %(since)s AND hour < %(until)s"
_FILL = f"INSERT INTO control_usagehour ({_COLUMNS}) {rollups.OF_EVENTS}"


@dataclass(frozen=True)
class Rebuilt:
    """What was not as events say, sums that were wrong or missing, and transfers; hours of cost
    are made anew whatever they were.
    """

    hours: int = 0
    transfers: int = 0
    cost_hours: int = 0


def rebuild(*, by: str, reason: str, at: datetime) -> Rebuilt:
    """All of it, a day at a time; storing waits for no more than that."""
    if not reason.strip():
        raise checks.refuse("reason", "is required: it stands in the audit")
    with connection.cursor() as cursor:
        cursor.execute(_SPAN)
        first, last = cursor.fetchone()
    hours = 0
    day = _midnight(first) if first else None
    while day and day <= last:
        hours += rebuild_hours(day, day + DAY)
        day += DAY
    rebuilt = Rebuilt(hours, repost(at), cost_hours.rebuild_all(at))  # which reads the sums
    change = (None, asdict(rebuilt))
    record("rebuild books", "usage", by=by, reason=reason, at=at, change=change)
    return rebuilt


def rebuild_hours(since: datetime, until: datetime) -> int:
    """The sums of these hours from events; how many of them were wrong or missing."""
    span = {"since": since, "until": until}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(_LOCK)
        found = 0
        for query in (_WRONG, _MISSING):
            cursor.execute(query, span)
            found += cursor.fetchone()[0]
        if found:
            cursor.execute(_DELETE, span)
            cursor.execute(_FILL, span)
    return found


def repost(at: datetime) -> int:
    """Move what events say and the ledger does not; what is posted stays, as it always does."""
    with transaction.atomic(), connection.cursor() as cursor:
        # Storing posts in the transaction of the events: none is half seen.
        cursor.execute("LOCK TABLE control_transfer IN SHARE ROW EXCLUSIVE MODE")
        cursor.execute(OWED, [])
        return ledger.post([_missing(cursor, row, at) for row in cursor.fetchall()])


def _missing(cursor, row: tuple, at: datetime) -> TransferWanted:
    batch, tenant_id, currency, amount = row
    key = f"usage:{batch}:{tenant_id}:{currency}"
    cursor.execute(
        "SELECT count(*) FROM control_transfer WHERE idempotency_key LIKE %s", [f"{key}%"]
    )
    [before] = cursor.fetchone()
    return TransferWanted(
        idempotency_key=f"{key}:{before}" if before else key,
        reason="usage, posted from events",
        at=at,
        postings=(
            PostingWanted(tenant_id, LedgerAccount.RECEIVABLE, currency, int(amount)),
            PostingWanted(tenant_id, LedgerAccount.REVENUE, currency, -int(amount)),
        ),
    )


def _midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
