"""Accounts of budgets: what is leased, spent and freed is exact, in whichever order it comes."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from control.metering import budgets, credit
from control.metering.credit import Granted, Short, Wanted
from control.metering.ingest import ship
from control.models import Account, AccountLease, Budget
from tests.metering.conftest import AT, spool

FREE = ["upstream_error", "lost"]
CENT = 10**10
COST = 80 * 1_000_000 + 20 * 250_000 + 50 * 4_000_000  # of the usual call of the house


@pytest.fixture
def database(db):
    connection.ensure_connection()
    return connection.connection


@pytest.fixture
def budget(house) -> Budget:
    return Budget.objects.create(key=house.key, amount="1.00", currency="USD")


def opened(database, budget, at=AT, unit="pico") -> int:
    return credit.account_of(database, budget.pk, unit, at, FREE).id


def figures(account_id: int) -> tuple[int, int]:
    account = Account.objects.get(pk=account_id)
    return int(account.spent), int(account.leased)


def test_credit_is_leased_until_nothing_is_left(database, budget):
    account = opened(database, budget)
    wanted = Wanted(least=60 * CENT)
    assert credit.lease(database, account, "gw-1", wanted) == Granted(60 * CENT)
    assert credit.lease(database, account, "gw-2", wanted) == Short(100 * CENT, 0, 60 * CENT)
    assert credit.lease(database, account, "gw-2", Wanted(40 * CENT)) == Granted(40 * CENT)
    assert credit.lease(database, account, "gw-1", Wanted(1)) == Short(100 * CENT, 0, 100 * CENT)


@pytest.mark.parametrize(
    ("wanted", "granted"),
    [
        (Wanted(least=10), 10),
        (Wanted(least=10, more=500, shares=4), 500),
        (Wanted(least=10, more=10**15, shares=4), 25 * CENT),
        (Wanted(least=90 * CENT, more=10**15, shares=4), 90 * CENT),
    ],
)
def test_more_than_a_call_needs_is_at_most_a_share(database, budget, wanted, granted):
    account = opened(database, budget)
    assert credit.lease(database, account, "gw-1", wanted) == Granted(granted)


def test_what_is_given_back_is_free_for_others(database, budget):
    account = opened(database, budget)
    credit.lease(database, account, "gw-1", Wanted(100 * CENT))
    credit.give_back(database, account, "gw-1", 30 * CENT)
    assert credit.lease(database, account, "gw-2", Wanted(30 * CENT)) == Granted(30 * CENT)
    assert figures(account) == (0, 100 * CENT)


def test_a_lease_that_has_ended_is_not_given_back_twice(database, budget):
    account = opened(database, budget)
    credit.lease(database, account, "gw-1", Wanted(100 * CENT))
    budgets.release("gw-1")
    credit.give_back(database, account, "gw-1", 30 * CENT)
    assert figures(account) == (0, 0)


def test_what_is_spent_beyond_a_lease_is_leased_whatever_is_left(database, budget):
    account = opened(database, budget)
    credit.lease(database, account, "gw-1", Wanted(100 * CENT))
    forced = Wanted(5 * CENT, forced=True)
    assert credit.lease(database, account, "gw-1", forced) == Granted(5 * CENT)
    assert figures(account) == (0, 105 * CENT)


def test_usage_moves_from_the_lease_to_what_is_spent(database, budget, house, tmp_path):
    account = opened(database, budget)
    credit.lease(database, account, "gw-1", Wanted(50 * CENT))
    credit.lease(database, account, "gw-2", Wanted(10 * CENT))
    spool(tmp_path, house.close("req_1"), owner="gw-1")
    ship(tmp_path, {"gw-1"}, AT)
    assert figures(account) == (COST, 60 * CENT - COST)
    assert AccountLease.objects.get(owner="gw-1").amount == 50 * CENT - COST
    ship(tmp_path, {"gw-1"}, AT)  # once only
    assert figures(account) == (COST, 60 * CENT - COST)


def test_a_dead_gateways_rest_is_free_when_its_spool_is_stored(database, budget, house, tmp_path):
    account = opened(database, budget)
    credit.lease(database, account, "gw-1", Wanted(50 * CENT))
    spool(tmp_path, house.close("req_1"), house.open("req_2"), owner="gw-1")
    ship(tmp_path, set(), AT)
    assert figures(account) == (COST, 0)
    assert not AccountLease.objects.exists()


def test_usage_is_counted_in_every_budget_of_its_scopes(database, house, tmp_path):
    scopes = [{"tenant": house.tenant}, {"project": house.project}, {"key": house.key}]
    made = [Budget.objects.create(**scope, amount="9", currency="USD") for scope in scopes]
    accounts = [opened(database, budget) for budget in made]
    spool(tmp_path, house.close("req_1"))
    ship(tmp_path, set(), AT)
    assert [figures(account) for account in accounts] == [(COST, 0)] * 3


def test_tokens_are_counted_whole_and_not_of_what_failed_before_the_first(
    database, house, tmp_path
):
    budget = Budget.objects.create(key=house.key, tokens=1000)
    account = opened(database, budget, unit="tokens")
    failed = {"outcome": "upstream_error", "output_tokens": 0, "delivered_tokens": 0}
    spool(tmp_path, house.close("req_1"), house.close("req_2", **failed))
    ship(tmp_path, set(), AT)
    assert figures(account) == (150, 0)
    other = Budget.objects.create(project=house.project, tokens=1000)
    assert figures(opened(database, other, unit="tokens")) == (150, 0)  # summed from the events


def test_a_budget_made_in_the_middle_counts_what_its_period_has_cost(database, house, tmp_path):
    before = AT.timestamp() - 86400 * 30
    spool(tmp_path, house.close("req_1"), house.close("req_2", started_at=before))
    ship(tmp_path, set(), AT)
    budget = Budget.objects.create(tenant=house.tenant, amount="1.00", currency="USD")
    account = opened(database, budget)
    assert figures(account) == (COST, 0)
    assert credit.lease(database, account, "gw-1", Wanted(100 * CENT)) == Short(100 * CENT, COST, 0)


def test_money_of_another_currency_is_of_another_budget(database, house, tmp_path):
    budget = Budget.objects.create(key=house.key, amount="1.00", currency="EUR")
    account = opened(database, budget)
    spool(tmp_path, house.close("req_1"))
    ship(tmp_path, set(), AT)
    assert figures(account) == (0, 0)


def test_each_period_has_an_account_and_late_usage_goes_to_its_own(
    database, house, budget, tmp_path
):
    november = opened(database, budget, AT)
    december = opened(database, budget, AT + timedelta(days=20))
    assert opened(database, budget, AT) == november
    assert november != december
    spool(tmp_path, house.close("req_1"))
    ship(tmp_path, set(), AT + timedelta(days=20))
    assert (figures(november), figures(december)) == ((COST, 0), (0, 0))


@pytest.mark.parametrize("late_hours", [0, 3])
def test_m08_the_month_begins_at_the_tenants_midnight(database, house, tmp_path, late_hours):
    house.tenant.timezone = "Asia/Tokyo"
    house.tenant.save()
    budget = Budget.objects.create(tenant=house.tenant, amount="10", currency="USD")
    before = datetime(2026, 11, 30, 14, 50, tzinfo=UTC)  # 23:50 in Tokyo
    after = before + timedelta(minutes=20)
    first, whole = opened(database, budget, before), {"input_tokens": 0, "cached_input_tokens": 0}
    tens = {"output_tokens": 2_500_000, "started_at": before.timestamp()}
    for owner in ("gw-1", "gw-2"):  # the same report of a shipper that ran twice
        spool(tmp_path, house.close("req_1", **whole, **tens), owner=owner)
        ship(tmp_path, set(), after + timedelta(hours=late_hours))
    assert figures(first) == (1000 * CENT, 0)
    assert credit.lease(database, first, "gw-1", Wanted(1)) == Short(1000 * CENT, 1000 * CENT, 0)
    second = opened(database, budget, after)
    assert figures(second) == (0, 0)
    assert credit.lease(database, second, "gw-1", Wanted(1)) == Granted(1)


def test_m08_a_tenant_that_moves_has_no_instant_in_two_periods(database, house):
    budget = Budget.objects.create(tenant=house.tenant, amount="1", currency="USD", period="day")
    first = credit.account_of(database, budget.pk, "pico", AT, FREE)
    house.tenant.timezone = "Asia/Tokyo"
    house.tenant.save()
    after = datetime.fromtimestamp(first.ends_at, UTC)
    second = credit.account_of(database, budget.pk, "pico", after, FREE)
    assert second.begins_at == first.ends_at
    assert second.ends_at == datetime(2026, 11, 21, 15, tzinfo=UTC).timestamp()


def test_leases_of_a_host_that_is_gone_end_by_themselves(database, budget):
    account = opened(database, budget)
    credit.lease(database, account, "gw-1", Wanted(50 * CENT))
    now = AccountLease.objects.get().renewed_at
    budgets.release_ended(now + timedelta(hours=23))
    assert figures(account) == (0, 50 * CENT)
    budgets.release_ended(now + timedelta(hours=25))
    assert figures(account) == (0, 0)
    assert not AccountLease.objects.exists()


def test_there_is_no_account_of_a_budget_that_is_gone(database, budget):
    account = opened(database, budget)
    budget.delete()
    assert credit.account_of(database, budget.pk, "pico", AT, FREE) is None
    assert credit.lease(database, account, "gw-1", Wanted(1)) is None
