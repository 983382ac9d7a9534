"""Credit of one budget over four gateways that hold, settle, are shipped, called in and killed."""

from collections.abc import Iterator
from itertools import count

import pytest
from django.db import connection
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from control.gateway.admission.credit import Purse
from control.metering import budgets, credit
from control.metering.budgets import Spending
from control.metering.credit import Granted, Short, Wanted
from control.metering.prices.rules import Charge
from control.models import Account, AccountLease, Budget
from tests.metering.conftest import AT, House

AMOUNT = 1000 * 10**6  # pico: the least that a budget can be of is 0.000001
processes = st.integers(0, 3)
units = st.integers(0, 400 * 10**6)
_owners = count(1)


class Gateway:
    """One process: its purse, the calls that run, and what is spent and not stored yet."""

    def __init__(self) -> None:
        self.owner = f"gw-{next(_owners)}"
        self.purse = Purse()
        self.calls: list[int] = []
        self.spool: list[int] = []


class Credit(RuleBasedStateMachine):
    house: House

    def __init__(self) -> None:
        super().__init__()
        self.gateways = [Gateway() for _ in range(4)]
        self.now = 0.0

    @initialize()
    def open(self) -> None:
        Budget.objects.all().delete()
        connection.ensure_connection()
        self.database = connection.connection
        budget = Budget.objects.create(key=self.house.key, amount="0.001", currency="USD")
        self.account = credit.account_of(self.database, budget.pk, "pico", AT, []).id

    @rule(which=processes, units=units, lean=st.booleans())
    def begin_a_call(self, which: int, units: int, lean: bool) -> None:
        gateway = self.gateways[which]
        purse = gateway.purse
        purse.lean_until = self.now + 1 if lean else 0.0
        if purse.left < units:
            wanted = Wanted(max(units - purse.left, 1), purse.wanted(self.now), 8)
            answer = credit.lease(self.database, self.account, gateway.owner, wanted)
            if isinstance(answer, Short):
                assert answer.amount - answer.spent - answer.leased < wanted.least
                return
            purse.granted(answer.units)
        assert purse.take(units, self.now)
        gateway.calls.append(units)

    @rule(which=processes, ratio=st.fractions(0, 1))
    def end_a_call(self, which: int, ratio) -> None:
        gateway = self.gateways[which]
        if gateway.calls:
            held = gateway.calls.pop(0)
            used = int(held * ratio)
            gateway.purse.settle(held, used, self.now)
            gateway.spool.append(used)

    @rule(which=processes)
    def call_in(self, which: int) -> None:
        gateway = self.gateways[which]
        spare = gateway.purse.empty()
        if spare:
            credit.give_back(self.database, self.account, gateway.owner, spare)

    @rule(which=processes)
    def ship(self, which: int) -> None:
        gateway = self.gateways[which]
        spent, gateway.spool = gateway.spool, []
        budgets.spend(gateway.owner, [self.spending(used) for used in spent])

    @rule(which=processes, lost=st.booleans())
    def kill(self, which: int, lost: bool) -> None:
        """What it spent is in its spool; of a lost call, all that it held, or nothing."""
        gateway, self.gateways[which] = self.gateways[which], Gateway()
        gateway.spool += gateway.calls if lost else []
        budgets.spend(gateway.owner, [self.spending(used) for used in gateway.spool])
        budgets.release(gateway.owner)
        assert not AccountLease.objects.filter(owner=gateway.owner).exists()

    @rule(seconds=st.sampled_from([1, 30, 70]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @invariant()
    @precondition(lambda self: hasattr(self, "account"))
    def nothing_is_spent_twice_or_from_nowhere(self) -> None:
        account = Account.objects.get(pk=self.account)
        assert account.spent >= 0
        assert account.leased >= 0
        assert account.spent + account.leased <= account.amount
        leases = {lease.owner: lease.amount for lease in AccountLease.objects.all()}
        assert sum(leases.values()) == account.leased
        for gateway in self.gateways:
            here = gateway.purse.left + gateway.purse.held + sum(gateway.spool)
            assert gateway.purse.held == sum(gateway.calls)
            assert leases.get(gateway.owner, 0) == here

    def teardown(self) -> None:
        """All have ended: what is not spent can be spent, to the last unit, and no more."""
        if not hasattr(self, "account"):
            return
        for which in range(4):
            while self.gateways[which].calls:
                self.end_a_call(which, 1)
            self.ship(which)
            self.call_in(which)
        account = Account.objects.get(pk=self.account)
        assert account.leased == 0
        rest = int(account.amount - account.spent)
        if rest:
            last = credit.lease(self.database, self.account, "gw-last", Wanted(rest))
            assert last == Granted(rest)
        more = credit.lease(self.database, self.account, "gw-last", Wanted(1))
        assert more == Short(AMOUNT, AMOUNT - rest, rest)

    def spending(self, used: int) -> Spending:
        house = self.house
        charged = Charge(used, "USD", None, "")
        return Spending(house.tenant.pk, house.project.pk, house.key.pk, AT, charged, 0)


@pytest.fixture
def machine(house) -> Iterator[type[Credit]]:
    Credit.house = house
    yield Credit
    del Credit.house


def test_credit_is_exact_whatever_happens_in_which_order(machine):
    fast = settings(
        max_examples=60,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=fast)


def test_the_clock_of_a_purse_keeps_a_minute_of_spend():
    purse = Purse()
    purse.granted(1000)
    for at in (0.0, 10.0, 20.0):
        purse.take(100, at)
        purse.settle(100, 60, at)
    assert purse.wanted(30.0) == 180
    assert purse.wanted(61.0) == 180  # of the minute before
    assert purse.wanted(200.0) == 0
