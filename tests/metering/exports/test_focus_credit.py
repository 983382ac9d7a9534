"""Credit that is bought, used, given and paid back, in FOCUS 1.4 and 1.2, by the column table."""

import io
import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from control.metering.exports.focus.files import FocusWanted, focus_csv, focus_parquet
from control.metering.invoices import actions
from control.metering.prepaid.actions import add_credit
from control.metering.prepaid.rules import CreditWanted
from control.metering.rules import PICO
from control.models import Invoice
from control.tenancy.actions import save_tenant
from control.tenancy.rules import TenantWanted
from tests.metering.conftest import AT
from tests.metering.invoices.months import DECEMBER_3, JANUARY_3, close, store

TABLE = json.loads((Path(__file__).parent / "focus_columns.json").read_text())
WHO = {"by": "ada", "reason": "by transfer"}
BOTH = pytest.mark.parametrize("version", ["1.2", "1.4"])
USED = Decimal("0.000285")  # of one call


def credit(amount: str, at, kind="purchase") -> None:
    add_credit(CreditWanted("acme", Decimal(amount), "USD", kind), at=at, **WHO)


@pytest.fixture
def months(house, tmp_path):
    """In November credit is bought, given and used; in December some is paid back, some let off."""
    wanted = TenantWanted("acme", prepaid="USD")
    save_tenant(wanted, at=AT - timedelta(days=1), **WHO)
    credit("10.005", AT - timedelta(hours=1))
    credit("1", AT - timedelta(hours=1), "goodwill")
    store(tmp_path, house.close("req_1"))
    close(house.tenant, AT)
    credit("2.5", DECEMBER_3, "refund")
    actions.grant_credit("acme", ("0.05", "USD"), "sorry", by="ada", reason="out", at=DECEMBER_3)
    close(house.tenant, DECEMBER_3, JANUARY_3)
    return house


def rows(month: str, version: str) -> list[dict]:
    file = b"".join(focus_parquet(FocusWanted(month, version=version)))
    return pq.read_table(io.BytesIO(file)).to_pylist()


def only(found: list[dict], category: str) -> dict:
    [row] = [row for row in found if row["ChargeCategory"] == category]
    return row


@BOTH
@pytest.mark.parametrize("month", ["2026-11", "2026-12"])
def test_every_row_keeps_to_the_column_table(months, month, version):
    found = rows(month, version)
    assert found
    for row in found:
        category = row["ChargeCategory"]
        for name, (_, nullable, _, versions) in TABLE["columns"].items():
            assert (name in row) == (version in versions), name
            assert nullable or name not in row or row[name] is not None, name
        for name, allowed in TABLE["values"].items():
            assert row[name] in allowed, name
        assert [name for name in TABLE["needed"].get(category, ()) if row[name] is None] == []
        assert [name for name in TABLE["null_of"].get(category, ()) if row[name] is not None] == []
        for name, tied in TABLE["null_without"].items():
            assert row[name] is not None or all(row[one] is None for one in tied), category
        if row["PricingQuantity"] is not None:
            assert row["ListUnitPrice"] * row["PricingQuantity"] == row["ListCost"]
            assert row["ContractedUnitPrice"] * row["PricingQuantity"] == row["ContractedCost"]
        assert category != "Purchase" or row["ChargeFrequency"] != "Usage-Based"


@BOTH
def test_what_is_bought_is_billed_and_what_is_used_of_it_costs(months, version):
    found = rows("2026-11", version)
    bought = only(found, "Purchase")
    assert (bought["BilledCost"], bought["EffectiveCost"]) == (Decimal("10.005"), 0)
    assert (bought["PricingQuantity"], bought["PricingUnit"]) == (Decimal("10.005"), "Credits")
    assert (bought["SkuId"], bought["ListUnitPrice"]) == ("prepaid-credit", 1)
    assert bought["ChargeDescription"] == "Credit bought"
    assert bought["x_LedgerBatchId"].startswith(f"credit:{months.tenant.pk}:")
    usage = [row for row in found if row["ChargeCategory"] == "Usage"]
    assert {row["BilledCost"] for row in usage} == {0}
    assert sum(row["EffectiveCost"] for row in usage) == USED
    assert {row["x_CostBasis"] for row in usage} == {"Paid ahead"}
    assert only(found, "Adjustment")["BilledCost"] == Decimal("0.005")


@BOTH
def test_what_is_paid_back_and_let_off_is_negative_and_no_correction(months, version):
    found = rows("2026-12", version)
    back, off = only(found, "Purchase"), only(found, "Credit")
    assert (back["BilledCost"], back["EffectiveCost"]) == (Decimal("-2.5"), 0)
    assert (back["PricingQuantity"], back["ContractedUnitPrice"]) == (Decimal("-2.5"), 1)
    assert back["ChargeDescription"] == "Credit paid back"
    assert (off["BilledCost"], off["EffectiveCost"]) == (Decimal("-0.05"), Decimal("-0.05"))
    assert (back["ChargeClass"], off["ChargeClass"]) == (None, None)
    assert back["BillingPeriodStart"] <= back["ChargePeriodStart"] < back["BillingPeriodEnd"]


@BOTH
def test_billed_costs_sum_to_what_is_payable_and_csv_says_the_same(months, version):
    for month in ("2026-11", "2026-12"):
        found = rows(month, version)
        [number] = {row["InvoiceId"] for row in found}
        payable = Invoice.objects.get(number=number).payable_pico
        assert sum(row["BilledCost"] for row in found) * PICO == payable
        told = b"".join(focus_csv(FocusWanted(month, version=version))).decode()
        assert told.count("Credits") == 1
