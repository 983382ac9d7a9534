"""Whose a month's cost is, pool by pool: as it is by now, or frozen once the month is closed."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import Min

from control.metering.cost import hours
from control.metering.exports.rules import month
from control.metering.invoices import facts
from control.models import CostHour, CostMonth, CostShare
from control.models.audit import record

PAGE_ROWS = 2000
BY_CLOCK = "clock"
MONTHS_AT_ONCE = 12
REASON = "the month is closed for all tenants"
TERMS = ("issuer", "provider", "host", "region_id", "region_name")

# Ratios of one pool are rounded to six decimals and sum to exactly 1: the largest takes the rest.
SHARES = """
WITH share AS (
    SELECT hour.pool, hour.currency, coalesce(tenant.name, '') AS tenant,
           coalesce(deployment.name, '') AS deployment, hour.line,
           sum(hour.device_microseconds)::bigint AS microseconds,
           sum(hour.hardware_pico + hour.power_pico + hour.engineering_pico + hour.spread_pico)
               AS pico
      FROM control_costhour hour
      LEFT JOIN control_tenant tenant ON tenant.id = hour.tenant_id
      LEFT JOIN control_deployment deployment ON deployment.id = hour.deployment_id
     WHERE hour.hour >= %(since)s AND hour.hour < %(until)s AND hour.currency <> ''
     GROUP BY 1, 2, 3, 4, 5),
placed AS (
    SELECT share.*, sum(pico) OVER (PARTITION BY pool, currency) AS whole,
           row_number() OVER (ORDER BY pool COLLATE "C", currency COLLATE "C",
               tenant COLLATE "C", deployment COLLATE "C", line COLLATE "C") AS position
      FROM share),
rounded AS (
    SELECT placed.*, CASE WHEN whole = 0 THEN 0 ELSE round(pico / whole, 6) END AS part,
           row_number() OVER (PARTITION BY pool, currency ORDER BY pico DESC, position) AS rank
      FROM placed)
SELECT position, pool, currency, tenant, deployment, line, microseconds, pico,
       part + CASE rank WHEN 1 THEN 1 - sum(part) OVER (PARTITION BY pool, currency) ELSE 0 END
  FROM rounded ORDER BY position
"""
STORE = f"""
INSERT INTO control_costshare (month_id, position, pool, currency, tenant, deployment, line,
    microseconds, pico, ratio) SELECT %(month)s, told.* FROM ({SHARES}) told
"""


class Share(NamedTuple):
    """Part of what a pool cost in one currency: a tenant's deployment, or a line of nobody's."""

    position: int
    pool: str
    currency: str
    tenant: str
    deployment: str
    line: str
    microseconds: int
    pico: Decimal
    ratio: Decimal


def by_now(month_text: str) -> Iterator[list[Share]]:
    """The database keeps what is not yet read, in no transaction."""
    since, until = month(month_text)
    with connection.chunked_cursor() as cursor:
        cursor.execute(SHARES, {"since": since, "until": until})
        while rows := cursor.fetchmany(PAGE_ROWS):
            yield [Share(*row) for row in rows]


def frozen(of: CostMonth) -> Iterator[list[Share]]:
    after = 0
    rows = CostShare.objects.filter(month=of).order_by("position").values_list(*Share._fields)
    while page := [Share(*row) for row in rows.filter(position__gt=after)[:PAGE_ROWS]]:
        after = page[-1].position
        yield page


def freeze_closed(at: datetime) -> int:
    """Months that are closed for all tenants, the oldest first; how many were frozen."""
    first = CostHour.objects.aggregate(first=Min("hour"))["first"]
    if first is None:
        return 0
    known = set(CostMonth.objects.values_list("month", flat=True))
    waiting, name = [], f"{first:%Y-%m}"
    while month(name)[1] <= at:
        waiting += [name] if name not in known else []
        name = f"{month(name)[1]:%Y-%m}"
    return sum(freeze(name, at) for name in waiting[-MONTHS_AT_ONCE:])


def freeze(month_text: str, at: datetime) -> bool:
    """Keep a month's shares as they are, once nothing of it is open; False: not now, or it is."""
    if is_frozen(month_text) or why_not_freeze(month_text, at):
        return False
    since, until = month(month_text)
    terms = {name: value for name, value in vars(facts.terms()).items() if name in TERMS}
    with transaction.atomic(), connection.cursor() as cursor:
        of, is_new = CostMonth.objects.get_or_create(
            month=month_text, defaults={**terms, "frozen_at": at}
        )
        if not is_new:
            return False
        cursor.execute(STORE, {"since": since, "until": until, "month": of.pk})
        change = (None, {"shares": cursor.rowcount})
        record("freeze costs", month_text, by=BY_CLOCK, reason=REASON, at=at, change=change)
    return True


def is_frozen(month_text: str) -> bool:
    return CostMonth.objects.filter(month=month_text).exists()


def has_cost(month_text: str) -> bool:
    since, until = month(month_text)
    rows = CostHour.objects.filter(hour__gte=since, hour__lt=until)
    return rows.exclude(currency="").exists()


def why_not_freeze(month_text: str, at: datetime) -> str:
    """Empty: what it cost is known, and nothing of it is open."""
    since, until = month(month_text)
    if until > at or facts.has_open(month_text):
        return "it is not closed for all tenants: close their months first"
    if not has_cost(month_text):
        return "no device time of it has a rate"
    days = (since + timedelta(days=number) for number in range((until - since).days))
    if any(hours.due(day, day + timedelta(days=1)) for day in days):
        return "hours of it are made anew: wait until they are"
    return ""
