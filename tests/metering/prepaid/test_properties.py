"""Prepaid credit: whatever comes in which order, balances sum to zero and agree with accounts."""

from decimal import Decimal

from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control import checks
from control.metering import budgets, credit, ledger
from control.metering.credit import Granted, Wanted
from control.metering.prepaid import actions, facts
from control.metering.prepaid.rules import CreditWanted
from control.models import Account, AccountLease
from control.tenancy.actions import save_tenant
from control.tenancy.rules import TenantWanted
from tests.metering.conftest import AT
from tests.metering.prepaid.test_actions import spend

WHO = {"by": "ann", "reason": "test", "at": AT}
OWNERS = ("gw-1", "gw-2")
UNIT = 10**6  # pico: the least that can be bought
owner, units = st.sampled_from(OWNERS), st.integers(1, 60)
step = st.one_of(
    st.tuples(st.sampled_from(["purchase", "goodwill", "refund"]), units),
    st.tuples(st.sampled_from(["lease", "spend", "give_back", "break_off"]), owner, units),
    st.tuples(st.just("die"), owner),
)


@given(steps=st.lists(step, max_size=25))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_credit_is_exact_whatever_happens_in_which_order(house, steps):
    with transaction.atomic():
        save_tenant(TenantWanted("acme", prepaid="USD"), **WHO)
        world = World(house)
        for kind, *of in steps:
            getattr(world, kind)(*of)
            world.check()
        transaction.set_rollback(True)


class World:
    """What should be so, beside what is stored."""

    def __init__(self, house) -> None:
        self.house = house
        self.database = connection.connection
        self.account = credit.credit_account_of(self.database, house.tenant.pk).id
        self.bought = self.spent = 0
        self.lent = dict.fromkeys(OWNERS, 0)

    def purchase(self, units: int) -> None:
        self._add("purchase", units)

    def goodwill(self, units: int) -> None:
        self._add("goodwill", units)

    def refund(self, units: int) -> None:
        try:
            self._add("refund", -units)
        except checks.Refused:
            assert units * UNIT > self.bought - self.spent - sum(self.lent.values())

    def _add(self, kind: str, units: int) -> None:
        wanted = CreditWanted("acme", Decimal(abs(units)) / 10**6, "USD", kind)
        with transaction.atomic():
            actions.add_credit(wanted, **WHO)
        self.bought += units * UNIT

    def lease(self, owner: str, units: int) -> None:
        answer = credit.lease(self.database, self.account, owner, Wanted(units * UNIT))
        self.lent[owner] += answer.units if isinstance(answer, Granted) else 0

    def spend(self, owner: str, units: int) -> None:
        if used := min(units * UNIT, self.lent[owner]):
            spend(self.house, used, owner)
            self.spent += used
            self.lent[owner] -= used

    def give_back(self, owner: str, units: int) -> None:
        back = min(units * UNIT, self.lent[owner])
        credit.give_back(self.database, self.account, owner, back)
        self.lent[owner] -= back

    def die(self, owner: str) -> None:
        budgets.release(owner)
        self.lent[owner] = 0

    def break_off(self, owner: str, units: int) -> None:
        """Ingest is killed before it has committed."""
        mark = transaction.savepoint()
        spend(self.house, units * UNIT, owner)
        transaction.savepoint_rollback(mark)

    def check(self) -> None:
        account = Account.objects.get(pk=self.account)
        lent = sum(self.lent.values())
        assert (account.amount, account.spent, account.leased) == (self.bought, self.spent, lent)
        assert self.spent + lent <= self.bought
        assert sum(row.amount for row in AccountLease.objects.all()) == lent
        posted = ledger.balances(self.house.tenant.pk)
        assert sum(posted.values()) == 0
        assert -posted.get(("prepaid", "USD"), 0) == self.bought - self.spent
        assert -posted.get(("revenue", "USD"), 0) == self.spent
        shown = facts.balances(self.house.tenant.pk)
        assert sum(shown.values()) == 0
        assert -shown.get(("held", "USD"), 0) == lent
