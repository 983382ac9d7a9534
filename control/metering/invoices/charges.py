"""What a period bills, summed by the database: usage by day and SKU, credits, credit bought."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Q

from control import checks
from control.metering.invoices.list_prices import ListPrices
from control.metering.invoices.rules import ChargeFacts
from control.metering.periods import midnight
from control.models import Charge, CreditEntry, GoodwillCredit
from control.states import ChargeCategory, CreditKind

NO_MARK = 2**62  # above every id: what is open bills what is there
CHARGES_MAX = 1_000_000  # of an invoice
PAGE_ROWS = 2000

# Those of the period's own time, and those that came too late for the time they are of.
BILLED = """
SELECT * FROM control_usageevent
 WHERE tenant_id = %(tenant)s AND id <= %(mark)s
   AND started_at >= %(begins)s AND started_at < %(ends)s
UNION ALL
SELECT * FROM control_usageevent
 WHERE tenant_id = %(tenant)s AND id <= %(mark)s AND id > %(mark_before)s
   AND started_at < %(begins)s
"""
# What was paid ahead: an account that an older release made has no spans.
CREDIT = """
SELECT account.currency, coalesce(span.begins_at, account.begins_at) AS begins_at,
       coalesce(span.ends_at, account.ends_at) AS ends_at
  FROM control_account account LEFT JOIN control_creditspan span ON span.account_id = account.id
 WHERE account.tenant_id = %(tenant)s
"""
# First the events, then their four classes: ten million rows are read once.
SUMS = f"""
WITH credit AS MATERIALIZED ({CREDIT}),
summed AS (
    SELECT (event.started_at AT TIME ZONE %(zone)s)::date AS day,
           event.started_at < %(begins)s AS is_late,
           event.started_at < %(begins)s AND event.started_at >= %(first)s AS is_correction,
           CASE WHEN event.started_at < %(begins)s THEN event.kind ELSE '' END AS kind,
           event.project_id, event.key_id, event.version_id, event.priority, event.price_id,
           event.currency,
           EXISTS (SELECT FROM credit WHERE credit.currency = event.currency
                      AND credit.begins_at <= event.started_at
                      AND event.started_at < credit.ends_at) AS is_paid_ahead,
           sum(event.billed_input) AS input,
           sum(event.billed_cached_input) AS cached_input,
           sum(event.billed_output) AS output, sum(event.billed_reasoning) AS reasoning,
           count(*) FILTER (WHERE event.kind = 'final' AND event.billed_input <> 0) AS input_calls,
           count(*) FILTER (WHERE event.kind = 'final' AND event.billed_cached_input <> 0)
               AS cached_calls,
           count(*) FILTER (WHERE event.kind = 'final' AND event.billed_output <> 0)
               AS output_calls,
           count(*) FILTER (WHERE event.kind = 'final' AND event.billed_reasoning <> 0)
               AS reasoning_calls
      FROM ({BILLED}) event WHERE event.price_id IS NOT NULL
     GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
SELECT summed.day, summed.is_correction, summed.kind, summed.project_id, project.name,
       summed.key_id, key.name, summed.version_id, coalesce(version.name, ''), model.name,
       class.name, summed.priority, summed.price_id, summed.currency, class.unit_pico,
       summed.is_paid_ahead, class.tokens, class.calls
  FROM summed
  JOIN control_price price ON price.id = summed.price_id
  JOIN control_catalogmodel model ON model.id = price.model_id
  JOIN control_project project ON project.id = summed.project_id
  JOIN control_key key ON key.id = summed.key_id
  LEFT JOIN control_version version ON version.id = summed.version_id
  CROSS JOIN LATERAL (VALUES
      ('input', summed.input, price.input_pico, summed.input_calls),
      ('cached_input', summed.cached_input, price.cached_input_pico, summed.cached_calls),
      ('output', summed.output, price.output_pico, summed.output_calls),
      ('reasoning', summed.reasoning, coalesce(price.reasoning_pico, price.output_pico),
       summed.reasoning_calls)) AS class (name, tokens, unit_pico, calls)
 WHERE class.tokens <> 0
 ORDER BY 1, 2, 3, project.name, key.name, model.name, 9, class.name, summed.priority, 13, 6, 4,
       summed.is_paid_ahead
"""
CALLS = f"""
SELECT count(*) FILTER (WHERE event.kind = 'final'),
       count(*) FILTER (WHERE event.kind = 'final' AND event.price_id IS NULL)
  FROM ({BILLED}) event
"""


@dataclass(frozen=True)
class Span:
    """Which rows a period bills: those up to its marks that the period before did not."""

    tenant_id: int
    timezone: str
    begins_at: datetime
    ends_at: datetime
    first_at: datetime  # the beginning of the tenant's first period: nothing before it was closed
    events_up_to: int = NO_MARK
    credits_up_to: int = NO_MARK
    events_before: int = 0
    credits_before: int = 0

    @property
    def values(self) -> dict:
        return {
            "tenant": self.tenant_id,
            "zone": self.timezone,
            "begins": self.begins_at,
            "ends": self.ends_at,
            "first": self.first_at,
            "mark": self.events_up_to,
            "mark_before": self.events_before,
        }


def charges(span: Span) -> Iterator[ChargeFacts]:
    """All of them, for an invoice: refused, not cut off, if they are too many for one."""
    for count, charge in enumerate(stream(span), 1):
        if count > CHARGES_MAX:
            rows = f"it has more than {CHARGES_MAX} rows by day, key and SKU"
            what = f"{rows}: split the tenant, or raise CHARGES_MAX"
            raise checks.refuse("period", what)
        yield charge


def stream(span: Span) -> Iterator[ChargeFacts]:
    """One after another; the database keeps those that are not yet read."""
    yield from _usage(span)
    yield from _bought(span)
    yield from _goodwill(span)


def calls(span: Span) -> tuple[int, int]:
    """(all of them, those without a price)"""
    with connection.cursor() as cursor:
        cursor.execute(CALLS, span.values)
        return cursor.fetchone()


def _usage(span: Span) -> Iterator[ChargeFacts]:
    lists = ListPrices(span.tenant_id)
    for day, is_correction, kind, *names, paid_ahead, tokens, calls_ in _rows(span):
        project_id, project, key_id, key, version_id, version, model, *rest = names
        token_class, priority, price_id, currency, unit_pico = rest
        begins, ends = day_of(day, span)
        pico = int(tokens) * unit_pico
        charge = ChargeFacts(
            currency=currency,
            begins_at=begins,
            ends_at=ends,
            # What is paid ahead was billed when the credit was bought.
            billed_pico=0 if paid_ahead else pico,
            effective_pico=pico,
            is_correction=is_correction,
            kind=kind,
            project_id=project_id,
            project=project,
            key_id=key_id,
            key=key,
            version_id=version_id,
            version=version,
            model=model,
            token_class=token_class,
            priority=priority,
            price_id=price_id,
            unit_price_pico=unit_pico,
            list_price_pico=lists.of(price_id, token_class, priority, begins, unit_pico),
            tokens=int(tokens),
            calls=calls_,
        )
        yield replace(charge, corrects=corrected_row(span, charge)) if is_correction else charge


def _rows(span: Span) -> Iterator[tuple]:
    with connection.chunked_cursor() as cursor:
        cursor.execute(SUMS, span.values)
        while page := cursor.fetchmany(PAGE_ROWS):
            yield from page


def day_of(day: date, span: Span) -> tuple[datetime, datetime]:
    """Of the tenant's calendar, inside the period or before it."""
    zone = ZoneInfo(span.timezone)
    begins, ends = midnight(day, zone), midnight(date.fromordinal(day.toordinal() + 1), zone)
    if ends <= span.begins_at:
        return begins, ends
    return max(begins, span.begins_at), min(ends, span.ends_at)


def _day_at(at: datetime, span: Span) -> tuple[datetime, datetime]:
    return day_of(at.astimezone(ZoneInfo(span.timezone)).date(), span)


def corrected_row(span: Span, charge: ChargeFacts) -> str:
    """The name of the closed row that this one repairs, if there was one of that day and SKU."""
    found = (
        Charge.objects.filter(
            invoice__tenant_id=span.tenant_id,
            begins_at=charge.begins_at,
            project_id=charge.project_id,
            key_id=charge.key_id,
            version_id=charge.version_id,
            token_class=charge.token_class,
            priority=charge.priority,
            price_id=charge.price_id,
            is_correction=False,
        )
        .order_by("pk")
        .values_list("invoice__number", "position")
        .first()
    )
    return f"{found[0]}:{found[1]}" if found else ""


def _bought(span: Span) -> Iterator[ChargeFacts]:
    """Credit that was paid for, or paid back: billed now, used later."""
    entries = CreditEntry.objects.filter(
        tenant_id=span.tenant_id,
        at__gte=span.begins_at,
        at__lt=span.ends_at,
        kind__in=(CreditKind.PURCHASE, CreditKind.REFUND),
    )
    for entry in entries.select_related("transfer").order_by("pk"):
        begins, ends = _day_at(entry.at, span)
        yield ChargeFacts(
            currency=entry.currency,
            begins_at=begins,
            ends_at=ends,
            billed_pico=int(entry.amount_pico),
            effective_pico=0,
            category=ChargeCategory.PURCHASE,
            transfer=entry.transfer.idempotency_key,
            description="Credit bought" if entry.amount_pico > 0 else "Credit paid back",
        )


def _goodwill(span: Span) -> Iterator[ChargeFacts]:
    late = Q(at__gte=span.begins_at) | Q(pk__gt=span.credits_before)
    credits_ = GoodwillCredit.objects.filter(
        late, tenant_id=span.tenant_id, pk__lte=span.credits_up_to, at__lt=span.ends_at
    )
    for credit in credits_.order_by("pk"):
        pico = -int(credit.amount_pico)
        begins, ends = _day_at(credit.at, span)
        yield ChargeFacts(
            currency=credit.currency,
            begins_at=begins,
            ends_at=ends,
            billed_pico=pico,
            effective_pico=pico,
            category=ChargeCategory.CREDIT,
            transfer=goodwill_key(credit.token),
            description=f"Credit: {credit.reason}",
        )


def goodwill_key(token: str) -> str:
    return f"goodwill:{token}"
