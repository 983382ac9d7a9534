"""All files of a month with everything in it, read back: they say one sum, to the pico-unit."""

import csv
import io
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow.parquet as pq
import pytest

from control.metering.exports import orders
from control.metering.exports.orders import Order
from control.metering.invoices import actions, corrections
from control.metering.ledger import balances
from control.metering.prepaid.actions import add_credit
from control.metering.prepaid.rules import CreditWanted
from control.metering.prices.actions import save_price
from control.metering.prices.wanted import price_wanted
from control.metering.rules import PICO, Tokens
from control.models import CatalogModel, Invoice, Version
from control.tenancy.actions import save_tenant
from control.tenancy.rules import TenantWanted
from tests.metering.conftest import AT, House, a_house
from tests.metering.invoices.months import DECEMBER_3, JANUARY_3, close, store

WHO = {"by": "ada", "reason": "as agreed"}
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
MONTHS = ("2026-11", "2026-12")
BOTH = pytest.mark.parametrize("month", MONTHS)
CLASSES = {
    "Input": "billed_input",
    "Cached Input": "billed_cached_input",
    "Output": "billed_output",
    "Reasoning": "billed_reasoning",
}


def price(model: str, currency: str, *further: dict, tenant: str = "", **per_million: str) -> None:
    terms = {"tenant": tenant} if tenant else {}
    wanted = price_wanted(model, currency, per_million, further=further, terms=terms)
    save_price(wanted, **WHO, at=LONG_AGO)


def call(house: House, number: int, at: datetime, version: Version, **changes):
    counts = {
        "input_tokens": 1_000_003 * number + 7,
        "cached_input_tokens": 333_331 * number,
        "output_tokens": 99_991 * number,
        "reasoning_tokens": 11 * number,
    }
    times = {"started_at": at.timestamp(), "ended_at": at.timestamp() + 1, "first_token_at": None}
    return house.close(f"req_{number}", **counts | times | changes, version_id=version.pk)


@pytest.fixture
def house(db, tmp_path) -> House:
    """Two models in two currencies, tiers, priorities, a price of its own; pays later, then ahead;
    after the close a late call, a call corrected twice, and a sum that is let off."""
    made = a_house()
    mini = CatalogModel.objects.create(name="mini")
    other = Version.objects.create(model=mini, name="v1", engine={"kind": "stub"}, digest="m")
    dear = {"from_tokens": 5_000_000, "per_million": {"input": "0.000001", "output": "0.333333"}}
    batch = {"priority": "batch", "per_million": {"input": "0.07", "output": "0.11"}}
    price("gemma", "USD", dear, batch, input="0.1", cached_input="0.003", output="0.7")
    price("mini", "EUR", input="0.2", cached_input="0.05", output="0.9", reasoning="1.1")
    price("mini", "EUR", tenant="acme", input="0.19", cached_input="0.04", output="0.8")
    store(
        tmp_path / "1",
        *(call(made, n, AT - HOUR * n, made.version) for n in (1, 2, 3)),
        call(made, 4, AT - HOUR, made.version, priority="batch"),
        *(call(made, n, AT, other) for n in (5, 6)),
        call(made, 7, AT, made.version, outcome="client_closed", delivered_tokens=3),
        call(made, 8, AT, made.version, outcome="upstream_error", output_tokens=0,
             reasoning_tokens=0),
        call(made, 9, AT + HOUR * 5, made.version),
    )  # fmt: skip
    save_tenant(TenantWanted("acme", prepaid="USD"), **WHO, at=AT + HOUR * 4)
    credit = CreditWanted("acme", Decimal("12.345678"), "USD")
    add_credit(credit, **WHO, at=AT + HOUR * 5)
    close(made.tenant, AT)
    store(tmp_path / "2", call(made, 10, AT, other), call(made, 11, DECEMBER_3 - HOUR, other))
    for tokens in (Tokens(40, 10, 9, 3), Tokens(0, 0, 0), Tokens(77, 7, 7)):
        corrections.correct_call(("acme", "req_5"), tokens, **WHO, at=DECEMBER_3)
    actions.grant_credit("acme", ("0.05", "EUR"), "sorry", **WHO, at=DECEMBER_3)
    close(made.tenant, DECEMBER_3, JANUARY_3)
    return made


def file(**order: str) -> bytes:
    return b"".join(orders.chunks(orders.checked(Order(**order))))


def rows(what: str, month: str = "", **more: str) -> list[dict]:
    made = file(what=what, month=month, format="csv", **more)
    return list(csv.DictReader(io.StringIO(made.decode())))


def typed(what: str, month: str) -> list[dict]:
    made = file(what=what, month=month, format="parquet", tenant="acme")
    return pq.read_table(io.BytesIO(made)).to_pylist()


def sums(found: list[dict], by: str, field: str) -> dict[str, Decimal]:
    total = defaultdict(Decimal)
    for row in found:
        total[row[by]] += Decimal(row[field])
    return {name: amount for name, amount in total.items() if amount}


def usage_of(focus: list[dict]) -> list[dict]:
    return [row for row in focus if row["ChargeCategory"] == "Usage"]


@BOTH
def test_calls_and_charges_cost_the_same_in_each_currency(house, month):
    calls, focus = rows("usage", month, tenant="acme"), rows("focus", month, tenant="acme")
    by_currency = sums(calls, "currency", "amount")
    assert by_currency
    assert sums(usage_of(focus), "BillingCurrency", "EffectiveCost") == by_currency
    assert sums(typed("usage", month), "currency", "amount") == by_currency
    found = usage_of(typed("focus", month))
    assert sums(found, "BillingCurrency", "EffectiveCost") == by_currency


@BOTH
def test_calls_and_charges_have_the_same_tokens_in_each_class(house, month):
    calls = [row for row in rows("usage", month, tenant="acme") if row["currency"]]
    consumed = sums(
        usage_of(rows("focus", month, tenant="acme")), "x_TokenType", "ConsumedQuantity"
    )
    told = {name: sum(int(row[column]) for row in calls) for name, column in CLASSES.items()}
    assert consumed == {name: count for name, count in told.items() if count}


@BOTH
def test_charges_and_lines_come_to_what_is_payable(house, month):
    billed = sums(rows("focus", month, tenant="acme"), "InvoiceId", "BilledCost")
    for invoice in Invoice.objects.filter(number__contains=month):
        payable = Decimal(invoice.payable_pico) / PICO
        assert billed.get(invoice.number, 0) == payable
        lines = rows("invoice", number=invoice.number)
        assert sum(Decimal(line["rounded"]) for line in lines) == payable
        assert sum(Decimal(line["exact"]) for line in lines) == payable
        for line in lines:
            if line["category"] == "Usage" and "paid ahead" not in line["description"]:
                product = Decimal(line["tokens"]) * Decimal(line["unit_price_per_million"])
                assert Decimal(line["exact"]) == product / 10**6
    assert set(billed) <= set(Invoice.objects.values_list("number", flat=True))


def test_the_ledger_owes_what_all_invoices_come_to(house):
    posted = balances(house.tenant.pk)
    payable = defaultdict(int)
    for invoice in Invoice.objects.all():
        payable[invoice.currency] += int(invoice.payable_pico)
    assert {name: posted.get(("receivable", name), 0) for name in payable} == payable
    calls = [row for month in MONTHS for row in rows("usage", month, tenant="acme")]
    earned = sums(calls, "currency", "amount")
    assert {name: -posted["revenue", name] for name in earned} == {
        name: amount * PICO for name, amount in earned.items()
    }
    for currency in payable:
        assert sum(pico for (_, name), pico in posted.items() if name == currency) == 0


def test_what_is_in_the_month_is_what_was_meant_to_be(house):
    """Or the sums above would agree about nothing."""
    november = rows("focus", "2026-11", tenant="acme")
    assert {row["ChargeCategory"] for row in november} == {"Usage", "Purchase", "Adjustment"}
    assert {row["x_CostBasis"] for row in usage_of(november)} == {"Metered", "Paid ahead"}
    assert {row["x_ServiceTier"] for row in usage_of(november)} == {"standard", "batch"}
    prices = {row["ContractedUnitPrice"] for row in usage_of(november)}
    assert {"0.1", "0.000001", "0.07", "0.19"} <= prices
    own = [row for row in usage_of(november) if row["BillingCurrency"] == "EUR"]
    assert {(row["ContractedUnitPrice"], row["ListUnitPrice"]) for row in own} == {
        ("0.19", "0.2"),
        ("0.04", "0.05"),
        ("0.8", "0.9"),
        ("0.8", "1.1"),  # its own book prices reasoning as output
    }
    december = rows("focus", "2026-12", tenant="acme")
    fixed = [row for row in december if row["ChargeClass"] == "Correction"]
    assert {row["ChargePeriodStart"][:7] for row in fixed} == {"2026-11"}
    assert any(row["BilledCost"].startswith("-") for row in fixed)
    assert sums(december, "ChargeCategory", "BilledCost")["Credit"] == Decimal("-0.05")
