"""Usage is billed, or paid by credit that was billed before: once, however a tenant pays now."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from control.metering.invoices import corrections
from control.metering.ledger import balances
from control.metering.prepaid.actions import add_credit
from control.metering.prepaid.rules import CreditWanted
from control.metering.rules import PICO, Tokens
from control.models import Account, Transfer
from control.states import ChargeCategory
from control.tenancy.actions import save_tenant
from control.tenancy.rules import TenantWanted
from tests.metering.conftest import AT
from tests.metering.invoices.months import DECEMBER_3, JANUARY_3, close, owed, store

CALL_PICO = 285_000_000
DECEMBER_1 = datetime(2026, 12, 1, tzinfo=UTC)


def test_usage_that_is_paid_ahead_costs_and_is_not_billed(house, tmp_path):
    pays_by("USD", AT - timedelta(hours=1))
    store(tmp_path, house.close("req_1"))
    [invoice] = close(house.tenant, AT)
    assert invoice.payable_pico == 0
    assert sum(row.effective_pico for row in invoice.charges.all()) == CALL_PICO
    assert {line.description.rpartition(", ")[2] for line in invoice.lines.all()} == {"paid ahead"}


def pays_by(currency: str, since: datetime) -> None:
    wanted = TenantWanted("acme", prepaid=currency)
    save_tenant(wanted, by="ada", reason="pays so", at=since)


@pytest.mark.parametrize(
    ("changes", "billed"),
    [  # (hours after the call at noon, how the tenant pays from then on); a call at 12, 13, 14, 15
        ([(0.5, "USD")], [True, False, False, False]),
        ([(-1, "USD"), (1.5, "")], [False, False, True, True]),
        ([(-1, "USD"), (0.5, ""), (1.5, "USD"), (2.5, "")], [False, True, False, True]),
        ([(-1, "USD"), (0.5, "EUR")], [False, True, True, True]),  # calls cost USD
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_each_call_is_billed_or_paid_ahead_by_how_its_tenant_paid_when_it_began(
    house, tmp_path, changes, billed, late
):
    """Whenever it was stored, and however the tenant pays when the month is closed."""
    calls = [
        house.close(f"req_{n}", started_at=AT.timestamp() + 3600 * n, output_tokens=10**n)
        for n in range(4)
    ]
    if not late:  # before the tenant says so: what was paid for so is paid for otherwise
        store(tmp_path / "soon", *calls)
    for hours, currency in changes:
        pays_by(currency, AT + timedelta(hours=hours))
    if late:
        store(tmp_path / "late", *calls)
    [invoice] = close(house.tenant, AT)
    costs = [85_000_000 + 4_000_000 * 10**n for n in range(4)]
    due = sum(cost for cost, is_billed in zip(costs, billed, strict=True) if is_billed)
    assert (invoice.exact_pico, owed(house.tenant)) == (due, invoice.payable_pico)
    usage = invoice.charges.filter(category=ChargeCategory.USAGE)
    assert sum(row.effective_pico for row in usage) == sum(costs)
    for line in invoice.lines.filter(category=ChargeCategory.USAGE):
        is_ahead = line.description.endswith("paid ahead")
        assert line.exact_pico == (0 if is_ahead else line.tokens * line.unit_price_pico)
    spent = Account.objects.get(tenant=house.tenant, currency="USD").spent
    assert spent == sum(costs) - due == balances(house.tenant.pk)[("prepaid", "USD")]
    assert sum(balances().values()) == 0


def test_credit_that_comes_while_its_month_is_closed_is_on_the_next_invoice(house, tmp_path):
    pays_by("USD", AT - timedelta(hours=1))
    store(tmp_path, house.close("req_1"))
    close(house.tenant, AT)
    last = DECEMBER_1 - timedelta(milliseconds=1)  # and waited for the tenant's row
    entry = add_credit(CreditWanted("acme", Decimal(10), "USD"), by="ada", reason="r", at=last)
    assert (entry.at, entry.transfer.at) == (DECEMBER_1, DECEMBER_1)
    [december] = close(house.tenant, DECEMBER_3, JANUARY_3)
    assert (december.payable_pico, owed(house.tenant)) == (10 * PICO, 10 * PICO)


def test_no_transfer_is_dated_in_a_month_that_is_closed(house, tmp_path):
    pays_by("USD", AT - timedelta(hours=1))
    store(tmp_path / "a", house.close("req_1"))
    close(house.tenant, AT)
    known = set(Transfer.objects.values_list("pk", flat=True))
    store(tmp_path / "b", house.close("req_late"), at=DECEMBER_3)
    told = {"by": "ada", "reason": "recount", "at": DECEMBER_3}
    corrections.correct_call(("acme", "req_1"), Tokens(9, 0, 0), **told)
    late = Transfer.objects.exclude(pk__in=known)
    assert late.filter(idempotency_key__startswith="draw:").count() == 2
    assert set(late.values_list("at", flat=True)) == {DECEMBER_3}


def test_a_corrected_call_that_was_paid_ahead_gives_credit_back_and_bills_nothing(house, tmp_path):
    pays_by("USD", AT - timedelta(hours=1))
    store(tmp_path, house.close("req_1"))
    close(house.tenant, AT)
    pays_by("", DECEMBER_3)
    told = {"by": "ada", "reason": "recount", "at": DECEMBER_3}
    corrections.correct_call(("acme", "req_1"), Tokens(0, 0, 0), **told)
    store(tmp_path, house.close("req_2", started_at=DECEMBER_3.timestamp() + 60))
    [december] = close(house.tenant, DECEMBER_3, JANUARY_3)
    assert december.exact_pico == CALL_PICO
    assert owed(house.tenant) == december.payable_pico
    assert balances(house.tenant.pk).get(("prepaid", "USD"), 0) == 0
