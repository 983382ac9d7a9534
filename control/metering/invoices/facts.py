"""Periods and invoices as pages, the operators' API and exports read them."""

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from django.db.models import QuerySet

from control import checks
from control.metering.invoices import closing, currencies, periods, rules
from control.metering.invoices.charges import charges
from control.metering.periods import year_and_month
from control.metering.rules import amount_text, per_million_text
from control.models import BillingPeriod, BillingTerms, GoodwillCredit, Invoice, Tenant
from control.states import PeriodState

ROWS_MAX = 1000


@dataclass(frozen=True)
class TermsFacts:
    """Who invoices and offers, and where it runs; what nobody has named is empty."""

    issuer: str = ""
    provider: str = ""
    host: str = ""
    region_id: str = ""
    region_name: str = ""
    close_after_hours: int | None = None


@dataclass(frozen=True)
class LineFacts:
    position: int
    category: str
    is_correction: bool
    project: str
    sku: str
    description: str
    tokens: int | None
    unit_price: str  # per million tokens
    exact: str
    rounded: str


@dataclass(frozen=True)
class InvoiceFacts:
    number: str
    tenant: str
    currency: str
    begins_at: datetime
    ends_at: datetime
    timezone: str
    issuer: str
    exact: str
    rounding: str
    payable: str
    issued_at: datetime | None  # None: it is what an open period comes to by now
    by: str
    rows_hash: str
    lines: tuple[LineFacts, ...] = ()

    @property
    def month(self) -> str:
        return month_text(self.begins_at, self.timezone)


@dataclass(frozen=True)
class PeriodFacts:
    id: int
    tenant: str
    month: str
    begins_at: datetime
    ends_at: datetime
    timezone: str
    state: str
    closed_at: datetime | None
    calls: int
    unpriced_calls: int
    invoices: tuple[tuple[str, str, str], ...]  # number, payable, currency
    why_not: tuple[str, ...]  # it cannot be closed; empty: it can be, or is


@dataclass(frozen=True)
class CreditFacts:
    tenant: str
    currency: str
    amount: str
    reason: str
    by: str
    at: datetime


def terms() -> TermsFacts:
    row = BillingTerms.objects.first()
    if row is None:
        return TermsFacts()
    return TermsFacts(**{name: getattr(row, name) for name in TermsFacts.__dataclass_fields__})


def month_text(begins_at: datetime, timezone: str) -> str:
    return f"{begins_at.astimezone(ZoneInfo(timezone)):%Y-%m}"


def period_list(
    at: datetime, tenant: str = "", *, first: int = 0, count: int = 100
) -> list[PeriodFacts]:
    """Newest first."""
    rows = _periods(tenant).select_related("tenant").prefetch_related("invoices")
    ordered = rows.order_by("-begins_at", "tenant__name")[first : first + min(count, ROWS_MAX)]
    return [_period(row, at) for row in ordered]


def _periods(tenant: str) -> QuerySet[BillingPeriod]:
    rows = BillingPeriod.objects.all()
    return rows.filter(tenant__name=tenant) if tenant else rows


def _period(row: BillingPeriod, at: datetime) -> PeriodFacts:
    problems = []
    if row.state == PeriodState.CLOSING:
        problems = closing.why_not_close(row.state, row.ends_at, at, periods.backlog(row))
    return PeriodFacts(
        id=row.pk,
        tenant=row.tenant.name,
        month=month_text(row.begins_at, row.timezone),
        begins_at=row.begins_at,
        ends_at=row.ends_at,
        timezone=row.timezone,
        state=row.state,
        closed_at=row.closed_at,
        calls=row.calls,
        unpriced_calls=row.unpriced_calls,
        invoices=tuple(
            (one.number, currencies.money(int(one.payable_pico), one.currency), one.currency)
            for one in sorted(row.invoices.all(), key=lambda one: one.currency)
        ),
        why_not=tuple(problem.what for problem in problems),
    )


def found_period(tenant: str, month: str) -> BillingPeriod | None:
    """The one of a tenant that begins in a month of its calendar, `2026-11`."""
    year_and_month(month)
    rows = BillingPeriod.objects.filter(tenant__name=tenant).select_related("tenant")
    ordered = rows.order_by("begins_at")
    return next((row for row in ordered if month_text(row.begins_at, row.timezone) == month), None)


def period_named(tenant: str, month: str) -> BillingPeriod:
    found = found_period(tenant, month)
    if found is None:
        raise checks.unknown("month", f"tenant {tenant!r} has no period of {month}")
    return found


def has_open(month: str, tenant: str = "") -> bool:
    """A period of it, or of a month before it, that is not closed yet: of a tenant or of any."""
    rows = _periods(tenant).exclude(state=PeriodState.CLOSED)
    return any(month_text(one.begins_at, one.timezone) <= month for one in rows)


def has_tenant(name: str) -> bool:
    return Tenant.objects.filter(name=name).exists()


def invoices(tenant: str = "", *, first: int = 0, count: int = 100) -> list[InvoiceFacts]:
    """Newest first, without their lines."""
    rows = _invoices(tenant).select_related("tenant", "period")
    ordered = rows.order_by("-period__begins_at", "tenant__name", "currency")
    return [_invoice(row) for row in ordered[first : first + min(count, ROWS_MAX)]]


def invoices_count(tenant: str = "") -> int:
    return _invoices(tenant).count()


def _invoices(tenant: str) -> QuerySet[Invoice]:
    return Invoice.objects.filter(tenant__name=tenant) if tenant else Invoice.objects.all()


def invoice(number: str) -> InvoiceFacts:
    row = Invoice.objects.select_related("tenant", "period").filter(number=number).first()
    if row is None:
        raise checks.unknown("invoice", f"there is no invoice {number!r}")
    lines = tuple(
        LineFacts(
            position=line.position,
            category=line.category,
            is_correction=line.is_correction,
            project=line.project,
            sku=rules.sku(line.model, line.token_class, line.priority),
            description=line.description,
            tokens=line.tokens,
            unit_price=_per_million(line.unit_price_pico),
            exact=amount_text(line.exact_pico),
            rounded=currencies.money(int(line.rounded_pico), row.currency),
        )
        for line in row.lines.order_by("position")
    )
    return _invoice(row, lines)


def _invoice(row: Invoice, lines: tuple[LineFacts, ...] = ()) -> InvoiceFacts:
    return InvoiceFacts(
        number=row.number,
        tenant=row.tenant.name,
        currency=row.currency,
        begins_at=row.period.begins_at,
        ends_at=row.period.ends_at,
        timezone=row.period.timezone,
        issuer=row.issuer,
        exact=amount_text(row.exact_pico),
        rounding=amount_text(row.rounding_pico),
        payable=currencies.money(int(row.payable_pico), row.currency),
        issued_at=row.issued_at,
        by=row.by,
        rows_hash=row.rows_hash,
        lines=lines,
    )


def preview(period_id: int) -> list[InvoiceFacts]:
    """What a period that is not closed comes to by now, one for each currency."""
    period = BillingPeriod.objects.select_related("tenant").filter(pk=period_id).first()
    if period is None:
        raise checks.unknown("period", "there is no such period")
    found = charges(periods.span_of(period))
    issuer = terms().issuer
    return [
        InvoiceFacts(
            number="",
            tenant=period.tenant.name,
            currency=bill.currency,
            begins_at=period.begins_at,
            ends_at=period.ends_at,
            timezone=period.timezone,
            issuer=issuer,
            exact=amount_text(bill.exact_pico),
            rounding=amount_text(bill.rounding_pico),
            payable=currencies.money(bill.payable_pico, bill.currency),
            issued_at=None,
            by="",
            rows_hash="",
            lines=tuple(
                _line(bill.currency, number, one) for number, one in enumerate(bill.lines, 1)
            ),
        )
        for bill in rules.bills(found, period.begins_at, period.ends_at)
    ]


def _line(currency: str, position: int, line: rules.Line) -> LineFacts:
    return LineFacts(
        position=position,
        category=line.category,
        is_correction=line.key.is_correction,
        project=line.key.project,
        sku=rules.sku(line.key.model, line.key.token_class, line.key.priority),
        description=rules.described(line.first),
        tokens=line.tokens,
        unit_price=_per_million(line.first.unit_price_pico),
        exact=amount_text(line.exact_pico),
        rounded=currencies.money(line.rounded_pico, currency),
    )


def _per_million(pico: int | None) -> str:
    return "" if pico is None else per_million_text(pico)


def credits_of(tenant: str = "", *, count: int = 100) -> list[CreditFacts]:
    """Newest first."""
    rows = GoodwillCredit.objects.select_related("tenant")
    rows = rows.filter(tenant__name=tenant) if tenant else rows
    return [
        CreditFacts(
            tenant=row.tenant.name,
            currency=row.currency,
            amount=currencies.money(int(row.amount_pico), row.currency),
            reason=row.reason,
            by=row.by,
            at=row.at,
        )
        for row in rows.order_by("-pk")[: min(count, ROWS_MAX)]
    ]
