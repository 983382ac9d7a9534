"""What file is asked for, wherever one asks: on the command line, a page, the API, by schedule."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from django.utils import timezone

from control import checks
from control.metering.exports import shares
from control.metering.exports.costs import CostsWanted, costs_csv, costs_parquet
from control.metering.exports.focus.files import (
    FocusWanted,
    focus_csv,
    focus_parquet,
    focus_schema,
)
from control.metering.exports.rules import UsageWanted, harmless, month
from control.metering.exports.usage import usage_csv, usage_parquet
from control.metering.exports.wanted import FOCUS, FOCUS_VERSIONS, FORMATS, USAGE, VERSION
from control.metering.invoices import facts, periods
from control.metering.invoices.charges import NO_MARK

TYPES = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
}
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
INVOICE_COLUMNS = (
    *("invoice", "tenant", "month", "position", "category", "correction", "project", "sku"),
    *("description", "tokens", "unit_price_per_million", "exact", "rounded", "currency"),
)


@dataclass(frozen=True)
class Order:
    """One file. A month is of its tenant's calendar; usage of all tenants is of one in UTC."""

    what: str
    format: str = ""  # empty: the first that there is
    month: str = ""
    tenant: str = ""
    model: str = ""
    version: str = VERSION
    number: str = ""  # of an invoice


def checked(order: Order) -> Order:
    """With its format, or refused before the first byte."""
    checks.require(checks.one_of("what", order.what, FORMATS))
    formats = FORMATS[order.what]
    order = replace(order, format=order.format or formats[0])
    checks.require(checks.one_of("format", order.format, formats))
    checks.require(checks.one_of("version", order.version, FOCUS_VERSIONS))
    match order.what:
        case "invoice":
            facts.invoice(order.number)
        case "usage" | "focus" | "costs":
            month(order.month)
    if order.tenant and order.what in (USAGE, FOCUS) and not facts.has_tenant(order.tenant):
        raise checks.unknown("tenant", f"there is no tenant {order.tenant!r}")
    return order


def name_of(order: Order) -> str:
    """Of its file."""
    match order.what:
        case "invoice":
            told = ("invoice", order.number)
        case "focus-schema":
            told = ("focus", order.version, "schema")
        case "focus":
            told = ("focus", order.version, order.month, order.tenant)
        case "costs":
            told = ("costs", order.month)
        case _:
            told = (order.what, order.month, order.tenant, order.model)
    return "-".join(("weir", *filter(None, told))) + f".{order.format}"


def chunks(order: Order) -> Iterator[bytes]:
    match order.what:
        case "usage":
            write = usage_csv if order.format == "csv" else usage_parquet
            return write(*_usage(order))
        case "focus":
            write = focus_csv if order.format == "csv" else focus_parquet
            return write(FocusWanted(order.month, order.tenant, order.version))
        case "costs":
            periods.open_all(timezone.now())
            shares.freeze(order.month, timezone.now())
            write = costs_csv if order.format == "csv" else costs_parquet
            return write(CostsWanted(order.month))
        case "focus-schema":
            return iter([focus_schema(order.version)])
    return _invoice(facts.invoice(order.number))


def _usage(order: Order) -> list[UsageWanted]:
    """Of a tenant's month what it was billed for: what came late for an earlier one goes first."""
    if not order.tenant:
        return [UsageWanted(*month(order.month), model=order.model)]
    period = facts.found_period(order.tenant, order.month)
    if period is None:
        return [UsageWanted(*month(order.month), tenant=order.tenant, model=order.model)]
    span = periods.span_of(period)
    own = UsageWanted(
        span.begins_at,
        span.ends_at,
        tenant=order.tenant,
        model=order.model,
        up_to_id=span.events_up_to,
    )
    if span.events_before == NO_MARK:
        return [own]
    late = replace(own, since=BEGINNING, until=span.begins_at, after_id=span.events_before)
    return [late, own]


def _invoice(found: facts.InvoiceFacts) -> Iterator[bytes]:
    """One row a line; the rounded amounts sum to what is payable."""
    rows = [INVOICE_COLUMNS]
    for line in found.lines:
        whose = (found.number, found.tenant, found.month, str(line.position), line.category)
        what = (line.project, line.sku, harmless(line.description))
        tokens = "" if line.tokens is None else str(line.tokens)
        money = (tokens, line.unit_price, line.exact, line.rounded, found.currency)
        rows.append((*whose, "correction" if line.is_correction else "", *what, *money))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    yield text.getvalue().encode()
