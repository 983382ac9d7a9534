"""Calls that wait for one budget: each hears of it, whatever another one makes of it."""

import pytest

from control.gateway.admission.accounts import Account, Leased
from control.gateway.admission.credit import Spending, Stake
from control.gateway.admission.lender import Away
from control.gateway.admission.money import Money, MoneyHold
from control.gateway.limits import Limits
from control.metering.credit import Granted
from control.routes.snapshot import BudgetInfo

BUDGET = BudgetInfo(1, "tokens", "", "100 tokens a month", "t:1")


class Bank:
    """It answers when it is told to."""

    limits, shares, owner = Limits(), 1, "gw-1"

    def __init__(self) -> None:
        self.asked = []

    def clock(self) -> float:
        return 100.0

    def ask(self, work, on_answer) -> None:
        self.asked.append(on_answer)


class Waiter:
    def __init__(self, fails: bool) -> None:
        self.fails, self.heard = fails, ""

    def try_to_hold(self) -> bool:
        return self._hears("held")

    def refuse_for(self, account: Account) -> None:
        self._hears("refused")

    def _hears(self, what: str) -> bool:
        self.heard = what
        if self.fails:
            raise ValueError(what)
        return True


def heard_of(answer: object) -> list[str]:
    bank, waiters = Bank(), [Waiter(fails=True), Waiter(fails=False)]
    account = Account(bank, BUDGET, 0.0)
    for waiter in waiters:
        account.wait(waiter, 1)
    bank.asked[0](answer)
    assert waiters[0] not in account.waiting
    return [waiter.heard for waiter in waiters]


def test_one_that_fails_on_its_credit_does_not_stop_those_behind_it():
    assert heard_of(Leased(None, Granted(10))) == ["held", "held"]


def test_one_that_fails_on_its_refusal_does_not_stop_those_behind_it():
    assert heard_of(Away()) == ["refused", "refused"]


def test_what_cannot_be_reckoned_is_given_back():
    """The end of a call without its times has no price."""
    money = Money(None, processes=1, limits=Limits(), clock=lambda: 100.0, wall=lambda: 0.0)
    account = money.account_of(BUDGET, 0.0)
    account.purse.granted(10)
    hold = MoneyHold(money, Stake(Spending((BUDGET,), ("m",), {}), (4,)))
    hold.begin(0.0, lambda unfunded: None)
    assert (account.purse.left, account.purse.held) == (6, 4)
    with pytest.raises(AttributeError):
        hold.settle(object(), "m")
    hold.settle()
    assert (account.purse.left, account.purse.held) == (10, 0)
