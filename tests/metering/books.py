"""Books as tests need them: prices that change, and that events, ledger and sums agree."""

from datetime import UTC, datetime

from django.db import connection, transaction

from control.metering import ledger, rollups
from control.models import Posting, Price, Tenant, UsageEvent, UsageHour


def reprice(**changes: object) -> None:
    """Every row has a newer one, begun when it did, with these changes."""
    for row in Price.objects.order_by("pk"):
        row.pk = None
        for name, value in changes.items():
            setattr(row, name, value)
        row.save(force_insert=True)


def drop_prices() -> None:
    """As if there had never been any: a replica of a database fires no triggers."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("DELETE FROM control_price")
        cursor.execute("SET LOCAL session_replication_role = origin")


EVER = {"since": datetime(1971, 1, 1, tzinfo=UTC), "until": datetime(9000, 1, 1, tzinfo=UTC)}


def assert_books_agree(tenant: Tenant) -> None:
    """What events say is what the ledger says and what the sums by the hour say, row by row."""
    assert sum(ledger.balances().values()) == 0
    charged = sum(UsageEvent.objects.filter(tenant=tenant).values_list("amount_pico", flat=True))
    owed = Posting.objects.filter(tenant=tenant, account="receivable")
    assert sum(owed.values_list("amount_pico", flat=True)) == charged
    columns = (*rollups.ALIKE, *rollups.SUMS)
    with connection.cursor() as cursor:
        cursor.execute(rollups.OF_EVENTS, EVER)
        from_events = {row for row in cursor.fetchall() if row[1] == tenant.pk}
    stored = UsageHour.objects.filter(tenant=tenant).values_list(*columns)
    assert set(stored) == from_events
