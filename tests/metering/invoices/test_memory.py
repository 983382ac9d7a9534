"""A close and what an open month comes to keep lines in memory, however many charges there are."""

import tracemalloc
from contextlib import contextmanager

from django.db import connection, transaction
from django.db.models import Sum

from control.metering.invoices import facts, hashes
from control.metering.invoices.charges import charges
from control.metering.invoices.periods import span_of
from control.models import Charge
from tests.metering.conftest import AT
from tests.metering.invoices.many import call_daily
from tests.metering.invoices.months import DECEMBER_3, JANUARY_3, close, period_at, store

KEYS, DAYS = 200, 20
CHARGES = KEYS * DAYS * 3 + 3  # of them alone some 12 MiB
MIB = 1024 * 1024
PEAK_MAX = 8 * MIB  # some pages


@contextmanager
def few_in_memory():
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < PEAK_MAX
    finally:
        tracemalloc.stop()


def test_twelve_thousand_charges_are_closed_page_by_page(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    call_daily(house, KEYS, DAYS)
    period = period_at(house.tenant, AT)
    with few_in_memory():
        [told] = facts.preview(period.pk)
    with few_in_memory():
        [invoice] = close(house.tenant, AT)
    found = facts.invoice(invoice.number)
    assert (found.exact, found.payable, found.lines) == (told.exact, told.payable, told.lines)
    rows = Charge.objects.filter(invoice=invoice)
    assert rows.count() == CHARGES + 1  # the rounding
    assert rows.aggregate(total=Sum("billed_pico"))["total"] == invoice.payable_pico
    by_line = rows.values("line").annotate(total=Sum("billed_pico"), tokens=Sum("tokens"))
    stored = {line.pk: (line.exact_pico, line.tokens) for line in invoice.lines.all()}
    assert {row["line"]: (row["total"], row["tokens"]) for row in by_line} == stored


def test_charges_follow_their_lines_and_their_hash_can_be_computed_by_whoever_has_them(
    house, tmp_path
):
    store(tmp_path, house.close("req_1"))
    call_daily(house, keys=3, days=2)
    [invoice] = close(house.tenant, AT)
    rows = list(Charge.objects.filter(invoice=invoice).order_by("position").select_related("line"))
    assert [row.position for row in rows] == list(range(1, 23))
    lines = [row.line.position for row in rows]
    assert lines == sorted(lines)
    named = [(row.begins_at, row.key_name) for row in rows if row.token_class == "input"]
    assert named == sorted(named)
    of_usage = [
        [str(getattr(one, name)) for name in one.__dataclass_fields__]
        for one in charges(span_of(period_at(house.tenant, AT)))
    ]
    [last] = invoice.charges.filter(category="Adjustment")
    span = invoice.period.begins_at, invoice.period.ends_at
    rounding = ["USD", *span, last.billed_pico, last.billed_pico, "Adjustment", False, ""]
    rounding += [None, "", None, "", None, "", "", "", "", *[None] * 5, "", last.transfer]
    of_rounding = [str(cell) for cell in (*rounding, "Rounding")]
    assert hashes.rows_hash([*of_usage, of_rounding]) == invoice.rows_hash


def test_nothing_of_a_close_is_left_beside_its_rows(house, tmp_path):
    store(tmp_path, house.close("req_1"), house.close("req_2", started_at=DECEMBER_3.timestamp()))
    with transaction.atomic():  # one after another, though no transaction has ended
        assert close(house.tenant, AT)
        assert close(house.tenant, DECEMBER_3, JANUARY_3)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'weir_draft%'")
        assert cursor.fetchone() == (0,)
