"""FOCUS files of a month: frozen rows of what is closed, today's figures of what is not."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa

from control.metering.exports import parquet
from control.metering.exports.focus import rules
from control.metering.exports.focus.columns import Column, Kind, columns_of, described, schema_of
from control.metering.exports.rules import harmless
from control.metering.exports.wanted import VERSION
from control.metering.invoices import facts, periods
from control.metering.invoices.charges import stream
from control.metering.invoices.rules import ChargeFacts
from control.metering.periods import year_and_month
from control.models import BillingPeriod, Charge, Invoice
from control.states import PeriodState

PAGE_ROWS = 2000


@dataclass(frozen=True)
class FocusWanted:
    """A month of a tenant's calendar, as in 2026-11; an empty tenant is every one."""

    month: str
    tenant: str = ""
    version: str = VERSION


def focus_csv(wanted: FocusWanted) -> Iterator[bytes]:
    columns = _columns(wanted)
    yield _csv([[column.name for column in columns]])
    for page in _pages(wanted):
        yield _csv([[_cell(column, row.get(column.name)) for column in columns] for row in page])


def focus_parquet(wanted: FocusWanted) -> Iterator[bytes]:
    columns = _columns(wanted)
    schema = schema_of(columns)
    return parquet.from_tables(schema, (_table(page, columns, schema) for page in _pages(wanted)))


def focus_schema(version: str) -> bytes:
    return json.dumps(described(version), indent=2).encode() + b"\n"


def _columns(wanted: FocusWanted) -> tuple[Column, ...]:
    year_and_month(wanted.month)  # refuse what is none before the first byte
    return columns_of(wanted.version)


def _pages(wanted: FocusWanted) -> Iterator[list[rules.Row]]:
    found = BillingPeriod.objects.select_related("tenant").order_by("tenant__name", "begins_at")
    if wanted.tenant:
        found = found.filter(tenant__name=wanted.tenant)
    for period in found:
        if facts.month_text(period.begins_at, period.timezone) != wanted.month:
            continue
        if period.state == PeriodState.CLOSED:
            yield from _frozen(period)
        else:
            yield from _by_now(period)


def _frozen(period: BillingPeriod) -> Iterator[list[rules.Row]]:
    for invoice in Invoice.objects.filter(period=period).order_by("currency"):
        bill = _bill(period, invoice)
        after = 0
        while rows := list(
            Charge.objects.filter(invoice=invoice, position__gt=after)
            .select_related("line")
            .order_by("position")[:PAGE_ROWS]
        ):
            after = rows[-1].position
            yield [
                rules.row(_stored(row, invoice.currency), bill, row.position, row.line.position)
                for row in rows
            ]


def _by_now(period: BillingPeriod) -> Iterator[list[rules.Row]]:
    """Without the rounding: nothing is rounded before the invoice is."""
    found = stream(periods.span_of(period))
    by_now = _bill(period, facts.terms())
    while page := list(islice(found, PAGE_ROWS)):
        yield [rules.row(one, by_now, 0, None) for one in page]


def _bill(period: BillingPeriod, terms: Invoice | facts.TermsFacts) -> rules.Bill:
    """An invoice keeps the terms that it was issued by."""
    return rules.Bill(
        tenant_id=period.tenant_id,
        tenant=period.tenant.name,
        begins_at=period.begins_at,
        ends_at=period.ends_at,
        invoice=getattr(terms, "number", ""),
        issuer=terms.issuer,
        provider=terms.provider,
        host=terms.host,
        region_id=terms.region_id,
        region_name=terms.region_name,
    )


_RENAMED = {"project": "project_name", "key": "key_name", "version": "version_name"}


def _stored(row: Charge, currency: str) -> ChargeFacts:
    names = ChargeFacts.__dataclass_fields__.keys() - {"currency"}
    values = {name: getattr(row, _RENAMED.get(name, name)) for name in names}
    told = ChargeFacts(currency=currency, **values)
    return replace(told, billed_pico=int(told.billed_pico), effective_pico=int(told.effective_pico))


def _cell(column: Column, value: object) -> str | None:
    if value is None:
        return None
    match column.kind:
        case Kind.DECIMAL:
            return rules.decimal_text(value)
        case Kind.INSTANT:
            return rules.instant_text(value)
    return harmless(str(value))


def _table(page: list[rules.Row], columns: tuple[Column, ...], schema: pa.Schema) -> pa.Table:
    cells = {column.name: [row.get(column.name) for row in page] for column in columns}
    return pa.table(
        {name: pa.array(values, schema.field(name).type) for name, values in cells.items()},
        schema=schema,
    )


def _csv(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
