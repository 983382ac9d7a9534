"""Calls of a month and its close, as tests need them."""

from datetime import UTC, datetime
from itertools import count

from control.metering.ingest import ship
from control.metering.invoices import actions, periods
from control.metering.ledger import balances
from control.metering.spool import SpoolWriter
from control.models import BillingPeriod, Invoice

DECEMBER_3 = datetime(2026, 12, 3, tzinfo=UTC)
JANUARY_3 = datetime(2027, 1, 3, tzinfo=UTC)
_owners = count(1)


def store(directory, *closes, at: datetime = DECEMBER_3) -> None:
    writer = SpoolWriter(directory, f"gw-{next(_owners)}")
    for close in closes:
        writer.append(close)
    writer.close()
    ship(directory, set(), at)


def period_at(tenant, at: datetime) -> BillingPeriod:
    periods.open_until(tenant, at)
    return BillingPeriod.objects.get(tenant=tenant, begins_at__lte=at, ends_at__gt=at)


def close(tenant, inside: datetime, at: datetime = DECEMBER_3) -> list[Invoice]:
    period = period_at(tenant, inside)
    return actions.close(period, by="ada", reason="month end", at=at)


def owed(tenant, currency: str = "USD") -> int:
    return balances(tenant.pk).get(("receivable", currency), 0)
