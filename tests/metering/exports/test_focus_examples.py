"""Rows of the reference, cell by cell: a day of input tokens, and what repairs a closed month."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from control.metering.exports.focus import rules
from control.metering.invoices.rules import ChargeFacts


def test_the_example_of_the_reference():
    """llama-3.1-8b, 12,345,678 tokens, 0.50 listed and 0.45 contracted a million."""
    begins = datetime(2026, 11, 12, 16, tzinfo=UTC)
    charge = ChargeFacts(
        "CNY",
        begins,
        begins + timedelta(days=1),
        billed_pico=450_000 * 12_345_678,
        effective_pico=450_000 * 12_345_678,
        project_id=31,
        project="ranking",
        key="ci",
        model="llama-3.1-8b",
        token_class="input",
        priority="standard",
        unit_price_pico=450_000,
        list_price_pico=500_000,
        tokens=12_345_678,
        calls=5210,
    )
    month = datetime(2026, 10, 31, 16, tzinfo=UTC), datetime(2026, 11, 30, 16, tzinfo=UTC)
    bill = rules.Bill(1007, "acme", *month, "", "Example Ltd", "Example MaaS", "DC", "", "")
    row = rules.row(charge, bill, 0, None)
    texts = {
        name: rules.decimal_text(value) for name, value in row.items() if isinstance(value, Decimal)
    }
    assert texts == {
        "BilledCost": "5.5555551",
        "EffectiveCost": "5.5555551",
        "ContractedCost": "5.5555551",
        "ContractedUnitPrice": "0.45",
        "ListCost": "6.172839",
        "ListUnitPrice": "0.5",
        "PricingQuantity": "12.345678",
        "ConsumedQuantity": "12345678",
        "x_RequestCount": "5210",
    }
    assert (row["SkuId"], row["SkuPriceId"]) == (
        "llama-3.1-8b.input",
        "llama-3.1-8b.input.standard",
    )
    assert rules.instant_text(row["BillingPeriodStart"]) == "2026-10-31T16:00:00Z"
    assert row["SkuPriceDetails"] == (
        '{"x_ModelName":"llama-3.1-8b","x_ServiceTier":"standard","x_TokenType":"Input"}'
    )


def test_a_reversal_and_its_new_row_are_the_correction_of_the_reference():
    """345,678 tokens were counted too many in October, which was found in November."""
    begins = datetime(2026, 10, 12, 16, tzinfo=UTC)
    month = datetime(2026, 10, 31, 16, tzinfo=UTC), datetime(2026, 11, 30, 16, tzinfo=UTC)
    bill = rules.Bill(1007, "acme", *month, "acme-2026-11-01-CNY", "Ltd", "MaaS", "DC", "", "")
    found = [
        rules.row(
            ChargeFacts(
                *("CNY", begins, begins + timedelta(days=1)),
                *(450_000 * tokens, 450_000 * tokens),
                is_correction=True,
                model="llama-3.1-8b",
                token_class="input",
                priority="standard",
                unit_price_pico=450_000,
                list_price_pico=500_000,
                tokens=tokens,
            ),
            *(bill, position, 1),
        )
        for position, tokens in enumerate((-12_345_678, 12_000_000), 1)
    ]
    names = ("ConsumedQuantity", "PricingQuantity", "ListCost", "BilledCost")
    names += ("ContractedCost", "EffectiveCost")
    assert [str(sum(row[name] for row in found).normalize()) for name in names] == [
        *("-345678", "-0.345678", "-0.172839"),
        *["-0.1555551"] * 3,
    ]
    assert {row["ContractedUnitPrice"] for row in found} == {Decimal("0.45")}
    assert {row["ChargeClass"] for row in found} == {"Correction"}
    assert {row["ChargePeriodStart"] for row in found} == {begins}
