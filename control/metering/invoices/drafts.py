"""Charges of a period while it is closed: the database keeps them, however many they are."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice

from django.db import connection

from control.metering.invoices.hashes import row_text
from control.metering.invoices.rules import ChargeFacts, Line, described
from control.models import Invoice, InvoiceLine

PAGE_ROWS = 2000
FREEZE_ROWS = 20_000  # their ties are checked together, in the server's memory
DESCRIPTION_CHARACTERS_MAX = 400
OF_FACTS = (
    *("category", "is_correction", "kind", "begins_at", "ends_at", "project_id", "key_id"),
    *("version_id", "model", "token_class", "priority", "price_id", "unit_price_pico"),
    *("list_price_pico", "tokens", "calls", "billed_pico", "effective_pico", "corrects"),
    *("transfer", "project", "key", "version"),
)
COLUMNS = (*OF_FACTS[:-3], "project_name", "key_name", "version_name", "description")
_COLUMNS = ", ".join(COLUMNS)
# Two tables of this transaction alone: charges, and the lines that they were found to be of.
BEGIN = f"""
CREATE TEMPORARY TABLE weir_draft ON COMMIT DROP AS
    SELECT 0::bigint AS id, '' AS currency, 0 AS line, 0::bigint AS nth, '' AS hashed, {_COLUMNS}
      FROM control_charge WITH NO DATA;
ALTER TABLE weir_draft ALTER id ADD GENERATED ALWAYS AS IDENTITY, ADD PRIMARY KEY (id);
CREATE TEMPORARY TABLE weir_draft_line (number integer PRIMARY KEY, invoice_id bigint NOT NULL,
    line_id bigint NOT NULL, before bigint NOT NULL) ON COMMIT DROP
"""
KEEP = f"COPY weir_draft (currency, line, nth, hashed, {_COLUMNS}) FROM STDIN"
KEEP_LINES = "COPY weir_draft_line (number, invoice_id, line_id, before) FROM STDIN"
# As Python sorts texts: by code points.
TEXTS = 'SELECT hashed FROM weir_draft WHERE currency = %s ORDER BY hashed COLLATE "C"'
COUNT = "SELECT coalesce(max(id), 0) FROM weir_draft"
FREEZE = f"""
INSERT INTO control_charge (invoice_id, line_id, position, {_COLUMNS})
SELECT line.invoice_id, line.line_id, line.before + draft.nth, {_COLUMNS}
  FROM weir_draft draft JOIN weir_draft_line line ON line.number = draft.line
 WHERE draft.id > %(after)s AND draft.id <= %(until)s
"""
# A tie that is checked at the end of the transaction is remembered until then.
AT_ONCE, AT_THE_END = "SET CONSTRAINTS ALL IMMEDIATE", "SET CONSTRAINTS ALL DEFERRED"
END = "DROP TABLE weir_draft, weir_draft_line"

Draft = tuple[ChargeFacts, int, int]  # a charge, the number of its line, which of it this is


def begin() -> None:
    with connection.cursor() as cursor:
        for statement in BEGIN.split(";"):
            cursor.execute(statement)


def keep(drafts: Iterable[Draft]) -> None:
    """Page by page: where they come from is asked on the same connection, in between."""
    waiting = iter(drafts)
    while page := list(islice(waiting, PAGE_ROWS)):
        _copy(KEEP, map(_row, page))


def texts(currency: str) -> Iterator[str]:
    """What the hash of an invoice is of, in its order."""
    with connection.chunked_cursor() as cursor:
        cursor.execute(TEXTS, [currency])
        while page := cursor.fetchmany(PAGE_ROWS):
            yield from (text for [text] in page)


def store_lines(invoice: Invoice, lines: Sequence[Line]) -> None:
    """The lines of an invoice, in their order; their charges follow each other in it too."""
    before = accumulate((line.charges for line in lines), initial=0)
    numbered = zip(range(1, len(lines) + 1), lines, before, strict=False)
    while page := list(islice(numbered, PAGE_ROWS)):
        rows = InvoiceLine.objects.bulk_create(
            _line(invoice, position, line) for position, line, _ in page
        )
        placed = zip(page, rows, strict=True)
        _copy(KEEP_LINES, ((line.number, invoice.pk, row.pk, n) for (_, line, n), row in placed))


def freeze() -> None:
    """All charges become rows of their invoices, for ever."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT)
        [count] = cursor.fetchone()
        cursor.execute(AT_ONCE)
        for after in range(0, count, FREEZE_ROWS):
            cursor.execute(FREEZE, {"after": after, "until": after + FREEZE_ROWS})
        cursor.execute(AT_THE_END)
        cursor.execute(END)


def _copy(statement: str, rows: Iterable[tuple]) -> None:
    with (
        connection.cursor() as cursor,
        connection.wrap_database_errors,
        cursor.copy(statement) as copy,
    ):
        for row in rows:
            copy.write_row(row)


def _row(draft: Draft) -> tuple:
    charge, line, nth = draft
    hashed = row_text(str(getattr(charge, name)) for name in charge.__dataclass_fields__)
    words = described(charge)[:DESCRIPTION_CHARACTERS_MAX]
    return (charge.currency, line, nth, hashed, *(getattr(charge, one) for one in OF_FACTS), words)


def _line(invoice: Invoice, position: int, line: Line) -> InvoiceLine:
    key = line.key
    return InvoiceLine(
        invoice=invoice,
        position=position,
        category=line.category,
        is_correction=key.is_correction,
        project=key.project,
        model=key.model,
        token_class=key.token_class,
        priority=key.priority,
        unit_price_pico=line.first.unit_price_pico,
        tokens=line.tokens,
        effective_pico=line.effective_pico,
        exact_pico=line.exact_pico,
        rounded_pico=line.rounded_pico,
        description=described(line.first)[:DESCRIPTION_CHARACTERS_MAX],
    )
