"""Credit of a tenant: topped up, drawn by calls, never from nowhere."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction

from control import checks
from control.metering import budgets, credit, ledger
from control.metering.budgets import Spending
from control.metering.credit import Granted, Short, Wanted
from control.metering.ingest import ship
from control.metering.prepaid import actions, facts
from control.metering.prepaid.rules import CreditWanted
from control.metering.prices.rules import Charge
from control.metering.rules import PICO
from control.models import Account, AuditEntry, CreditEntry, Transfer
from control.tenancy.actions import save_tenant
from control.tenancy.rules import TenantWanted
from tests.metering.conftest import AT, House, spool
from tests.metering.test_ingest_crashes import Killed, kill_at

WHO = {"by": "ann", "reason": "paid by transfer", "at": AT}
TEN = CreditWanted("acme", Decimal(10), "USD")


@pytest.fixture
def prepaid(house) -> House:
    save_tenant(TenantWanted("acme", prepaid="USD"), **WHO | {"at": AT - timedelta(days=1)})
    return house


def the_account() -> Account:
    return Account.objects.get(tenant__name="acme")


def pico(text: str) -> int:
    return int(Decimal(text) * PICO)


def spend(house: House, units: int, owner: str = "gw-1", at=AT) -> None:
    """As ingest does, its events and what they are billed included."""
    batch = Transfer.objects.count()
    ledger.post([ledger.usage_transfer(batch, house.tenant.pk, "USD", units, at)])
    charged = Charge(units, "USD", None, "")
    budgets.spend(
        owner, [Spending(house.tenant.pk, house.project.pk, house.key.pk, at, charged, 1)]
    )


def test_a_top_up_is_a_transfer_an_entry_and_an_audit_of_who_and_why(prepaid):
    entry = actions.add_credit(TEN, **WHO)
    assert (entry.by, entry.reason, entry.kind) == ("ann", "paid by transfer", "purchase")
    assert the_account().amount == 10 * PICO
    assert ledger.balances() == {("prepaid", "USD"): -10 * PICO, ("receivable", "USD"): 10 * PICO}
    assert AuditEntry.objects.get(action="add credit").after["amount"] == "10"


def test_goodwill_is_an_expense_and_not_a_bill(prepaid):
    actions.add_credit(replace(TEN, kind="goodwill"), **WHO)
    balances = ledger.balances(prepaid.tenant.pk)
    assert balances == {("credit_expense", "USD"): 10 * PICO, ("prepaid", "USD"): -10 * PICO}


def test_the_same_reference_tops_up_once(prepaid):
    first = actions.add_credit(replace(TEN, reference="inv-7"), **WHO)
    again = actions.add_credit(replace(TEN, reference="inv-7"), **WHO)
    assert first == again
    assert the_account().amount == 10 * PICO
    with pytest.raises(checks.Refused, match="other credit"):
        actions.add_credit(replace(TEN, reference="inv-7", amount=Decimal(11)), **WHO)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (replace(TEN, tenant="nobody"), "no tenant"),
        (replace(TEN, currency="EUR"), "no credit in EUR"),
        (replace(TEN, kind="refund"), "only 0 of the credit is free"),
    ],
)
def test_what_cannot_be_added_says_why_and_leaves_no_trace(prepaid, wanted, says):
    with pytest.raises(checks.Refused, match=says):
        actions.add_credit(wanted, **WHO)
    assert not CreditEntry.objects.exists()
    assert ledger.balances() == {}


def test_a_reason_is_required(prepaid):
    with pytest.raises(checks.Refused, match="reason"):
        actions.add_credit(TEN, **WHO | {"reason": " "})


def test_a_refund_leaves_what_calls_hold(prepaid):
    actions.add_credit(TEN, **WHO)
    connection.ensure_connection()
    account = credit.credit_account_of(connection.connection, prepaid.tenant.pk)
    lent = credit.lease(connection.connection, account.id, "gw-1", Wanted(4 * PICO))
    assert lent == Granted(4 * PICO)
    with pytest.raises(checks.Refused, match="only 6 of"):
        actions.add_credit(replace(TEN, kind="refund", amount=Decimal(7)), **WHO)
    actions.add_credit(replace(TEN, kind="refund", amount=Decimal(6)), **WHO)
    [left] = facts.credit("acme", AT)
    assert (left.balance, left.held, left.free) == ("4", "4", "0")
    balances = facts.balances(prepaid.tenant.pk)
    assert balances["held", "USD"] == -4 * PICO
    assert balances["prepaid", "USD"] == 0
    assert sum(balances.values()) == 0


def test_a_stored_call_is_billed_and_paid_out_of_credit(prepaid, tmp_path):
    actions.add_credit(TEN, **WHO)
    spool(tmp_path, prepaid.open("c-1"), prepaid.close("c-1"))
    for _ in range(2):
        ship(tmp_path, (), AT)
    cost = 80 * 1_000_000 + 20 * 250_000 + 50 * 4_000_000
    account = the_account()
    assert (account.spent, account.leased) == (cost, 0)
    assert ledger.balances() == {
        ("prepaid", "USD"): cost - 10 * PICO,
        ("receivable", "USD"): 10 * PICO,
        ("revenue", "USD"): -cost,
    }


STEPS = ("read", "stored", "counted", "committed", "remembered", "forgotten")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.django_db(transaction=True)
def test_r03_d_ingest_killed_at_any_step_draws_once_and_leaks_nothing(house, tmp_path, step):
    save_tenant(TenantWanted("acme", prepaid="USD"), **WHO | {"at": AT - timedelta(days=1)})
    actions.add_credit(TEN, **WHO)
    connection.ensure_connection()
    account = credit.credit_account_of(connection.connection, house.tenant.pk)
    credit.lease(connection.connection, account.id, "gw-1", Wanted(PICO))
    spool(tmp_path, *[house.close(f"c-{number}") for number in range(3)])
    with pytest.raises(Killed):
        ship(tmp_path, (), AT, kill_at(step))
    ship(tmp_path, (), AT)
    cost = 3 * (80 * 1_000_000 + 20 * 250_000 + 50 * 4_000_000)
    stored = the_account()
    assert (stored.spent, stored.leased) == (cost, 0)
    assert ledger.balances()["prepaid", "USD"] == cost - 10 * PICO
    assert sum(ledger.balances().values()) == 0


def test_the_last_unit_is_spent_and_no_more_is_lent(prepaid):
    actions.add_credit(TEN, **WHO)
    connection.ensure_connection()
    database: psycopg.Connection = connection.connection
    id_ = credit.credit_account_of(database, prepaid.tenant.pk).id
    half = credit.lease(database, id_, "gw-1", Wanted(5 * PICO, more=99 * PICO, shares=4))
    assert half == Granted(5 * PICO)
    rest = credit.lease(database, id_, "gw-2", Wanted(5 * PICO))
    assert rest == Granted(5 * PICO)
    assert credit.lease(database, id_, "gw-2", Wanted(1)) == Short(10 * PICO, 0, 10 * PICO)
    spend(prepaid, 5 * PICO, "gw-1")
    spend(prepaid, 5 * PICO, "gw-2")
    assert credit.lease(database, id_, "gw-2", Wanted(1)) == Short(10 * PICO, 10 * PICO, 0)
    assert ledger.balances()["prepaid", "USD"] == 0
    actions.add_credit(replace(TEN, amount=Decimal("0.000001")), **WHO)
    assert credit.lease(database, id_, "gw-2", Wanted(10**6)) == Granted(10**6)


def test_calls_from_before_are_billed_and_those_from_after_are_paid(prepaid):
    actions.add_credit(TEN, **WHO)
    spend(prepaid, PICO, at=AT - timedelta(days=2))
    assert the_account().spent == 0
    spend(prepaid, PICO)
    assert the_account().spent == PICO
    save_tenant(TenantWanted("acme"), **WHO | {"at": AT + timedelta(hours=1)})
    spend(prepaid, PICO, at=AT + timedelta(hours=2))
    spend(prepaid, PICO, at=AT)  # one that came late
    assert the_account().spent == 2 * PICO
    assert facts.credit("acme", AT + timedelta(hours=2))[0].is_open is False
    save_tenant(TenantWanted("acme", prepaid="USD"), **WHO | {"at": AT + timedelta(hours=3)})
    assert facts.credit("acme", AT + timedelta(hours=4))[0].balance == "8"


def test_an_entry_of_credit_cannot_be_changed(prepaid):
    actions.add_credit(TEN, **WHO)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        CreditEntry.objects.update(amount_pico=1)
