"""A model's calls of last month, as a preview reprices them: roll-ups, and what was interrupted."""

from collections import defaultdict
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Sum

from control import checks
from control.metering.prices import books
from control.metering.prices.preview import (
    NOT_YET,
    Change,
    Preview,
    Traffic,
    difference,
    repriced,
    rows_of,
    told,
)
from control.metering.prices.rules import Prices, Rows
from control.metering.prices.wanted import PriceWanted
from control.metering.rules import Tokens
from control.models import CatalogModel, Tenant, UsageHour, Version
from control.states import Outcome

CHANGES_MAX = 1000  # shown, those that pay most more first
_COUNTS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens")
# By whether there was output and whether any arrived: sums of those alike are billed as each is.
# Its conditions are those of the index usage_interrupted.
_INTERRUPTED = """
SELECT tenant_id, priority, outcome, {hour}, count(*), sum(input_tokens),
       sum(cached_input_tokens), sum(output_tokens), sum(reasoning_tokens),
       sum(least(delivered_tokens, output_tokens)),
       sum(least(reasoning_tokens, delivered_tokens, output_tokens))
  FROM control_usageevent
 WHERE version_id = ANY(%(versions)s) AND started_at >= %(since)s AND started_at < %(until)s
   AND kind = 'final' AND outcome <> 'complete'
 GROUP BY 1, 2, 3, 4, output_tokens > 0, least(delivered_tokens, output_tokens) > 0
"""


def preview(wanted: PriceWanted, at: datetime) -> Preview:
    """Of the calendar month (UTC) before `at`; nothing is saved."""
    model = CatalogModel.objects.filter(name=wanted.model).first()
    if model is None:
        raise checks.unknown("model", f"there is no model {wanted.model!r}")
    tenants = dict(Tenant.objects.values_list("pk", "name"))
    ids = {name: pk for pk, name in tenants.items()}
    if wanted.tenant and wanted.tenant not in ids:
        raise checks.unknown("tenant", f"there is no tenant {wanted.tenant!r}")
    since, until = last_month(at)
    begins = max(wanted.valid_from or at, at)
    stored = books.of_model(wanted.model)
    asked = rows_of(wanted, begins)
    with_it = dict(stored)
    whose = ids[wanted.tenant] if wanted.tenant else None
    with_it[whose] = (*stored.get(whose, ()), *asked)
    tiered = any(row.tier_from_tokens for rows in with_it.values() for row in rows)
    traffic = traffic_of(model.pk, since, until, by_hour=tiered)
    before, after = _tiers(stored, begins), _tiers(with_it, begins)
    meant = {
        one.tenant_id
        for one in traffic
        if any(row.book == NOT_YET for row in after(one.tenant_id, one.priority))
    }
    mine = [one for one in traffic if one.tenant_id in meant]
    now, new = repriced(mine, before), repriced(mine, after)
    charged, calls = _charged(model.pk, since, until), defaultdict(int)
    for one in mine:
        calls[one.tenant_id] += one.calls
    changes = [
        Change(
            tenant=tenants.get(tenant_id, "?"),
            calls=calls[tenant_id],
            charged=told(charged[tenant_id]),
            now=told(now[tenant_id]),
            new=told(new[tenant_id]),
            more_pico=difference(now[tenant_id], new[tenant_id]),
        )
        for tenant_id in meant
    ]
    changes.sort(key=lambda one: (-(one.more_pico or 0), one.tenant))
    others = len({one.tenant_id for one in traffic} - meant)
    return Preview(since, until, begins, wanted.currency, tuple(changes[:CHANGES_MAX]), others)


def last_month(at: datetime) -> tuple[datetime, datetime]:
    until = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (until - timedelta(days=1)).replace(day=1), until


def _tiers(stored: books.Books, at: datetime):
    own = {tenant: {"": rows} for tenant, rows in stored.items() if tenant is not None}
    prices = Prices({"": stored.get(None, ())}, own)

    def of(tenant_id: int, priority: str) -> Rows:
        return prices.tiers(tenant_id, "", priority, at)

    return of


def traffic_of(model_id: int, since: datetime, until: datetime, *, by_hour: bool) -> list[Traffic]:
    """Complete calls from roll-ups, the others one by one from their events."""
    names = ("tenant_id", "priority", *(["hour"] if by_hour else []))
    rows = UsageHour.objects.filter(
        hour__gte=since, hour__lt=until, version__model=model_id, outcome=Outcome.COMPLETE
    )
    found = [
        Traffic(
            tenant_id=row["tenant_id"],
            priority=row["priority"],
            outcome=Outcome.COMPLETE,
            calls=row["sum_calls"],
            tokens=Tokens(*(int(row[f"sum_{name}"]) for name in _COUNTS)),
            hour=row.get("hour"),
        )
        for row in rows.values(*names).annotate(
            sum_calls=Sum("calls"), **{f"sum_{name}": Sum(name) for name in _COUNTS}
        )
    ]
    hour = "date_trunc('hour', started_at, 'UTC')" if by_hour else "NULL::timestamptz"
    versions = list(Version.objects.filter(model_id=model_id).values_list("pk", flat=True))
    with connection.cursor() as cursor:
        named = {"versions": versions, "since": since, "until": until}
        cursor.execute(_INTERRUPTED.format(hour=hour), named)
        for tenant_id, priority, outcome, at, calls, *counts in cursor.fetchall():
            *counts, sent_reasoning = map(int, counts)
            found.append(
                Traffic(tenant_id, priority, outcome, calls, Tokens(*counts), sent_reasoning, at)
            )
    return found


def _charged(model_id: int, since: datetime, until: datetime) -> dict[int, dict[str, int]]:
    rows = UsageHour.objects.filter(hour__gte=since, hour__lt=until, version__model=model_id)
    found: dict[int, dict[str, int]] = defaultdict(dict)
    sums = (
        rows.exclude(currency="").values("tenant_id", "currency").annotate(sum=Sum("amount_pico"))
    )
    for row in sums:
        found[row["tenant_id"]][row["currency"]] = int(row["sum"])
    return found
