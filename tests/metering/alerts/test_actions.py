"""Each threshold of a budget's period is told once, whoever watches and however often."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control import checks
from control.metering.alerts import actions, facts
from control.metering.alerts.rules import THRESHOLDS
from control.metering.prepaid.actions import add_credit
from control.metering.prepaid.rules import CreditWanted
from control.models import Account, AuditEntry, Budget, BudgetAlert, Tenant
from control.tenancy.actions import save_tenant
from control.tenancy.rules import TenantWanted
from tests.metering.conftest import AT
from tests.metering.prepaid.test_actions import spend

WHO = {"by": "ann", "reason": "test", "at": AT}


def told() -> list[tuple[str, int]]:
    rows = BudgetAlert.objects.order_by("pk")
    return [(row.scope, row.percent) for row in rows]


def a_budget(house, amount="1.00", **scope) -> Budget:
    scope = scope or {"tenant": house.tenant}
    return Budget.objects.create(amount=amount, currency="USD", **scope)


def test_a_budget_is_told_of_at_each_threshold_once(house):
    a_budget(house)
    actions.watch(AT)
    cent = 10**10
    for spent, new in ((49, []), (1, [50]), (29, []), (1, [80]), (19, []), (1, [100]), (50, [])):
        spend(house, spent * cent)
        before = len(told())
        assert actions.watch(AT) == len(new)
        assert actions.watch(AT) == 0
        assert [percent for _, percent in told()[before:]] == new


def test_thresholds_passed_at_once_are_each_told(house):
    a_budget(house, project=house.project)
    actions.watch(AT)
    spend(house, 2 * 10**12)
    actions.watch(AT)
    assert told() == [("project acme/default", percent) for percent in (50, 80, 100)]


def test_a_soft_budget_that_no_gateway_opens_counts_its_period_from_the_events(house):
    spend_before = Budget.objects.create(key=house.key, tokens=10, mode="soft")
    actions.watch(AT)
    account = Account.objects.get(budget=spend_before)
    assert (account.unit, account.amount) == ("tokens", 10)
    for _ in range(5):
        spend(house, 0)
    actions.watch(AT)
    [alert] = facts.alerts("acme")
    assert (alert.scope, alert.percent, alert.mode) == ("key acme/ci", 50, "soft")
    assert not alert.is_urgent


def test_another_period_and_another_amount_are_told_anew(house):
    budget = a_budget(house)
    actions.watch(AT)
    spend(house, 6 * 10**11)
    actions.watch(AT)
    Account.objects.filter(budget=budget).update(amount=12 * 10**11)
    actions.watch(AT)
    next_month = datetime(2026, 12, 2, tzinfo=UTC)
    actions.watch(next_month)
    spend(house, 6 * 10**11, at=next_month)
    actions.watch(next_month)
    assert [percent for _, percent in told()] == [50, 50, 50]


def test_events_that_come_in_late_are_told_of_their_period(house):
    a_budget(house, "1.00")
    actions.watch(AT)
    end = datetime(2026, 12, 1, tzinfo=UTC)
    spend(house, 10**12, at=end - timedelta(seconds=1))
    actions.watch(end + timedelta(minutes=5))
    assert [percent for _, percent in told()] == [50, 80, 100]


def test_credit_is_told_of_what_was_last_added(house):
    save_tenant(TenantWanted("acme", prepaid="USD"), **WHO)
    actions.watch(AT)
    assert told() == []
    for half, rest in ((50, 30), (60, 36)):  # of 1.00, then of the 0.20 that were left and 1.00
        add_credit(CreditWanted("acme", Decimal(1), "USD"), **WHO)
        actions.watch(AT)
        spend(house, half * 10**10)
        actions.watch(AT)
        spend(house, rest * 10**10)
        actions.watch(AT)
    assert told() == [("tenant acme", 50), ("tenant acme", 80)] * 2
    assert facts.alerts()[0].text == "80 % of the prepaid credit of tenant acme is used (USD)"


def test_an_alert_names_the_url_that_it_goes_to(house):
    Tenant.objects.update(alert_url="http://127.0.0.1:9/x")
    a_budget(house)
    actions.watch(AT)
    spend(house, 10**12)
    actions.watch(AT)
    assert {(row.url, row.delivery) for row in BudgetAlert.objects.all()} == {
        ("http://127.0.0.1:9/x", "waiting")
    }


def test_what_somebody_has_seen_is_out_of_the_banner_and_in_the_audit(house):
    a_budget(house)
    actions.watch(AT)
    spend(house, 10**12)
    actions.watch(AT)
    [first, *_] = facts.unseen(5)
    assert first.percent == 100
    assert first.is_urgent
    assert actions.mark_seen(first.id, **WHO) == 1
    assert actions.mark_seen(first.id, **WHO) == 0
    assert [alert.percent for alert in facts.unseen(5)] == [80, 50]
    assert AuditEntry.objects.filter(action="see alert").count() == 1
    assert actions.mark_seen(None, **WHO) == 2
    with pytest.raises(checks.Unknown):
        actions.mark_seen(10**6, **WHO)


def told_at(house, amount: int, marked: int, spent: int) -> set[int]:
    """The thresholds that such an account is told of; nothing of it is left."""
    with transaction.atomic():
        account = Account.objects.create(
            budget=a_budget(house),
            unit="pico",
            begins_at=AT - timedelta(days=1),
            ends_at=AT + timedelta(days=1),
            amount=amount,
            marked=marked,
            spent=spent,
        )
        actions.watch(AT)
        found = {row.percent for row in BudgetAlert.objects.filter(account=account)}
        transaction.set_rollback(True)
    return found


@pytest.mark.parametrize(
    ("amount", "marked", "spent", "told"),
    [
        (100, 0, 49, []),
        (100, 0, 50, [50]),
        (100, 0, 79, [50]),
        (3, 0, 2, [50]),
        (3, 0, 3, [50, 80, 100]),
        (100, 0, 99, [50, 80]),
        (100, 0, 100, [50, 80, 100]),
        (100, 0, 150, [50, 80, 100]),
        (0, 0, 0, []),  # nothing may be spent, and nothing was
        (0, 0, 1, [50, 80, 100]),
        (150, 100, 100, []),  # topped up by 50 when 100 was spent
        (150, 100, 124, []),
        (150, 100, 125, [50]),
        (150, 200, 200, [50, 80, 100]),  # overdrawn, and the top-up did not cover it
    ],
)
def test_a_threshold_is_told_when_so_much_is_spent(house, amount, marked, spent, told):
    assert told_at(house, amount, marked, spent) == set(told)


numbers = st.integers(0, 300)


@given(amount=numbers, marked=numbers, spent=numbers)
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_thresholds_are_parts_of_what_was_given(house, amount, marked, spent):
    given_out, used = amount - marked, spent - marked
    reached = {percent for percent in THRESHOLDS if used * 100 >= percent * given_out}
    expected = set() if given_out == 0 and used <= 0 else reached
    assert told_at(house, amount, marked, spent) == expected
