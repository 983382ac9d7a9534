"""FOCUS files read back by others: types, nulls, exact products, sums, the same bytes again."""

import csv
import io
import json
import re
from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from control.checks import Refused
from control.metering.exports.focus import files
from control.metering.exports.focus.files import FocusWanted, focus_csv, focus_parquet, focus_schema
from control.metering.invoices import actions, charges, corrections
from control.metering.rules import PICO, Tokens
from control.models import BillingTerms, Charge, Invoice
from tests.metering.conftest import AT
from tests.metering.invoices.months import DECEMBER_3, JANUARY_3, close, store

TABLE = json.loads((Path(__file__).parent / "focus_columns.json").read_text())
COLUMNS, VALUES = TABLE["columns"], TABLE["values"]
ARROW = {
    "D": pa.decimal128(38, 12),
    "T": pa.timestamp("ms", tz="UTC"),
    "S": pa.string(),
    "J": pa.string(),
}
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d*[1-9])?")


def csv_of(wanted: FocusWanted) -> list[dict]:
    return list(csv.DictReader(io.StringIO(b"".join(focus_csv(wanted)).decode())))


def table_of(wanted: FocusWanted) -> pa.Table:
    return pq.read_table(io.BytesIO(b"".join(focus_parquet(wanted))))


@pytest.fixture
def months(house, tmp_path):
    """November with an invoice; December with a correction, a late call and a credit, closed."""
    store(tmp_path, *(house.close(f"req_{n}", reasoning_tokens=5) for n in range(30)))
    close(house.tenant, AT)
    names = {"provider": "Example MaaS", "host": "Example DC East", "region_id": "cn-east-1"}
    BillingTerms.objects.create(pk=1, issuer="Example Ltd", **names)
    call = ("acme", "req_3")
    corrections.correct_call(call, Tokens(40, 10, 9, 3), by="ada", reason="recount", at=DECEMBER_3)
    store(tmp_path, house.close("req_late"))
    store(tmp_path, house.close("req_new", started_at=DECEMBER_3.timestamp()))
    money = ("0.05", "USD")
    actions.grant_credit("acme", money, "sorry", by="ada", reason="outage", at=DECEMBER_3)
    close(house.tenant, DECEMBER_3, JANUARY_3)
    return house


@pytest.mark.parametrize("version", ["1.2", "1.4"])
@pytest.mark.parametrize("month", ["2026-11", "2026-12"])
def test_columns_types_and_nulls_are_those_of_the_standard(months, month, version):
    table = table_of(FocusWanted(month, version=version))
    expected = {name for name, column in COLUMNS.items() if version in column[3]}
    own = {name for name in table.schema.names if name.startswith("x_")}
    assert set(table.schema.names) == expected | own
    assert table.schema.names == sorted(expected) + sorted(own)
    for name in expected:
        mandatory, nullable, kind, _ = COLUMNS[name]
        column = table.schema.field(name)
        assert (column.type, column.nullable) == (ARROW[kind], nullable), name
        if not nullable:
            assert table[name].null_count == 0, name
        assert mandatory in (True, False)
    for name, allowed in VALUES.items():
        assert set(table[name].to_pylist()) <= set(allowed), name


@pytest.mark.parametrize("month", ["2026-11", "2026-12"])
def test_every_row_holds_what_the_standard_asks_of_it(months, month):
    rows = table_of(FocusWanted(month)).to_pylist()
    assert rows
    for row in rows:
        assert row["ChargePeriodEnd"] > row["ChargePeriodStart"]
        assert row["BillingPeriodEnd"] > row["BillingPeriodStart"]
        assert row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]
        for quantity, unit in (
            ("PricingQuantity", "PricingUnit"),
            ("ConsumedQuantity", "ConsumedUnit"),
        ):
            assert (row[quantity] is None) == (row[unit] is None)
        if row["ChargeCategory"] in ("Usage", "Purchase"):
            assert row["PricingQuantity"] is not None
            # Corrections may break the product; ours do not.
            assert row["ContractedUnitPrice"] * row["PricingQuantity"] == row["ContractedCost"]
            assert row["ListUnitPrice"] * row["PricingQuantity"] == row["ListCost"]
            assert row["ContractedUnitPrice"] >= 0
            assert row["ListUnitPrice"] >= 0
        if row["ChargeCategory"] != "Usage":
            assert row["ConsumedQuantity"] is None
        for name in ("Tags", "SkuPriceDetails"):
            members = json.loads(row[name]) if row[name] else {}
            assert all(isinstance(value, str | int | bool) for value in members.values())
    assert len({row["x_RowId"] for row in rows}) == len(rows)


@pytest.mark.parametrize("month", ["2026-11", "2026-12"])
def test_billed_costs_of_an_invoice_sum_to_what_is_payable(months, month):
    sums = defaultdict(Decimal)
    for row in table_of(FocusWanted(month)).to_pylist():
        sums[row["InvoiceId"]] += row["BilledCost"]
    for invoice in Invoice.objects.filter(number__in=sums):
        assert sums[invoice.number] * PICO == invoice.payable_pico
    assert len(sums) == 1


def test_a_correction_is_in_a_later_period_under_another_invoice(months):
    rows = csv_of(FocusWanted("2026-12"))
    fixed = [row for row in rows if row["ChargeClass"] == "Correction"]
    assert {row["ChargePeriodStart"] for row in fixed} == {"2026-11-20T00:00:00Z"}
    assert {row["BillingPeriodStart"] for row in fixed} == {"2026-12-01T00:00:00Z"}
    originals = {row["x_RowId"]: row for row in csv_of(FocusWanted("2026-11"))}
    for row in fixed:
        original = originals[row["x_CorrectsRowId"]]
        assert original["InvoiceId"] != row["InvoiceId"]
        assert original["SkuPriceId"] == row["SkuPriceId"]
    negative = [row for row in fixed if row["BilledCost"].startswith("-")]
    assert {row["x_TokenType"] for row in negative} == {
        "Input",
        "Cached Input",
        "Output",
        "Reasoning",
    }
    assert all(Decimal(row["ContractedUnitPrice"]) > 0 for row in negative)
    [credit] = [row for row in rows if row["ChargeCategory"] == "Credit"]
    assert (credit["BilledCost"], credit["ChargeClass"], credit["PricingUnit"]) == ("-0.05", "", "")


@pytest.mark.parametrize("version", ["1.2", "1.4"])
@pytest.mark.parametrize("write", [focus_csv, focus_parquet])
def test_a_closed_month_is_the_same_bytes_again(months, tmp_path, write, version):
    wanted = FocusWanted("2026-11", version=version)
    first = b"".join(write(wanted))
    BillingTerms.objects.update(issuer="Another Ltd", provider="Another")
    store(tmp_path, months.close("req_9"))
    corrections.correct_call(("acme", "req_4"), Tokens(1, 0, 1), by="ada", reason="r", at=JANUARY_3)
    assert b"".join(write(wanted)) == first


def test_csv_and_parquet_say_the_same(months):
    wanted = FocusWanted("2026-12")
    for told, typed in zip(csv_of(wanted), table_of(wanted).to_pylist(), strict=True):
        for name, value in typed.items():
            if value is None:
                assert told[name] == ""
            elif isinstance(value, Decimal):
                assert NUMBER.fullmatch(told[name]), told[name]
                assert Decimal(told[name]) == value
            elif isinstance(value, datetime):
                assert INSTANT.fullmatch(told[name])
                assert datetime.fromisoformat(told[name]) == value
            else:
                assert told[name] == value


def test_tokens_of_all_rows_are_those_of_the_charges(months):
    sums = defaultdict(Decimal)
    for month in ("2026-11", "2026-12"):
        for row in table_of(FocusWanted(month)).to_pylist():
            if row["x_TokenType"]:
                sums[row["x_TokenType"]] += row["ConsumedQuantity"]
    # 29 calls as told, one corrected, one late, one in December.
    assert sums == {
        "Input": 31 * 80 + 30,
        "Cached Input": 31 * 20 + 10,
        "Output": 29 * 45 + 2 * 50 + 6,
        "Reasoning": 29 * 5 + 3,
    }


def test_an_open_month_has_no_invoice_yet_and_no_rounding(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    actions.tick(AT)
    rows = csv_of(FocusWanted("2026-11"))
    assert {row["InvoiceId"] for row in rows} == {""}
    assert {row["ChargeCategory"] for row in rows} == {"Usage"}
    assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal("0.000285")
    assert not Charge.objects.exists()


def test_an_open_month_comes_in_pages(house, tmp_path, monkeypatch):
    """So that one of a million rows is never whole in memory."""
    store(tmp_path, *(house.close(f"req_{n}", reasoning_tokens=5) for n in range(3)))
    actions.grant_credit("acme", ("5", "USD"), "c", by="ada", reason="sorry", at=AT)
    actions.tick(AT)
    whole = b"".join(focus_csv(FocusWanted("2026-11")))
    monkeypatch.setattr(files, "PAGE_ROWS", 1)
    monkeypatch.setattr(charges, "PAGE_ROWS", 1)
    pages = list(focus_csv(FocusWanted("2026-11")))
    assert (b"".join(pages), len(pages)) == (whole, 6)


def test_an_invoice_of_too_many_rows_is_refused_and_not_cut_off(house, tmp_path, monkeypatch):
    store(tmp_path, house.close("req_1"))
    monkeypatch.setattr(charges, "CHARGES_MAX", 2)
    with pytest.raises(Refused, match="more than 2 rows"):
        close(house.tenant, AT)
    assert not Invoice.objects.exists()


def test_names_that_begin_like_a_formula_are_harmless_and_negative_costs_stay(house, tmp_path):
    BillingTerms.objects.create(pk=1, issuer="=1+1", provider="-2", host="@x")
    store(tmp_path, house.close("req_1"))
    actions.grant_credit("acme", ("5", "USD"), "c", by="ada", reason="+sorry", at=AT)
    actions.tick(AT)
    rows = csv_of(FocusWanted("2026-11"))
    assert {row["InvoiceIssuerName"] for row in rows} == {"'=1+1"}
    assert {row["ServiceProviderName"] for row in rows} == {"'-2"}
    assert rows[-1]["BilledCost"] == "-5"
    assert set(table_of(FocusWanted("2026-11"))["InvoiceIssuerName"].to_pylist()) == {"=1+1"}


@pytest.mark.parametrize("version", ["1.2", "1.4"])
def test_the_schema_file_names_each_column_once(version):
    told = json.loads(focus_schema(version))
    names = [column["ColumnName"] for column in told["ColumnDefinition"]]
    assert told["FocusVersion"] == version
    assert names == next(csv.reader([b"".join(_header(version)).decode()]))


def _header(version: str):
    yield next(focus_csv(FocusWanted("2026-11", version=version)))


def test_what_is_unknown_is_refused(db):
    for wanted in (FocusWanted("2026-13"), FocusWanted("2026-11", version="1.0")):
        with pytest.raises(Refused):
            next(focus_csv(wanted))
