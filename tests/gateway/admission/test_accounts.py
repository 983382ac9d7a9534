"""Calls that wait for one budget: each hears of it, whatever another one makes of it."""

import asyncio

import pytest

from control.gateway.admission.accounts import Account, Leased
from control.gateway.admission.credit import Spending, Stake
from control.gateway.admission.lender import Away
from control.gateway.admission.money import Money, MoneyHold
from control.gateway.limits import Limits
from control.metering.credit import Granted, Short
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


class Patient:
    """It holds as soon as all that it needs is there."""

    def __init__(self, needs: int) -> None:
        self.needs, self.holds, self.account = needs, False, None

    def try_to_hold(self) -> bool:
        self.holds = self.account.purse.left >= self.needs
        if not self.holds:
            self.account.ask_for_waiting()
        return self.holds

    def refuse_for(self, account: Account) -> None:
        raise AssertionError("it is not refused")


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


def test_a_part_of_what_a_call_needs_is_kept_while_the_rest_is_asked_for():
    """Called in by others meanwhile: else each answer finds the part before it given back."""
    bank, waiter = Bank(), Patient(needs=10)
    waiter.account = account = Account(bank, BUDGET, 0.0)
    account.purse.granted(5)
    account.wait(waiter, 10)
    account.be_lean()
    assert (len(bank.asked), account.purse.left) == (1, 5)
    bank.asked[0](Leased(None, Granted(5)))
    assert waiter.holds


def test_a_part_of_what_a_call_needs_goes_back_if_there_is_no_more():
    bank, waiter = Bank(), Patient(needs=10)
    waiter.account = account = Account(bank, BUDGET, 0.0)
    account.purse.granted(5)
    asyncio.run(hears_that_it_is_short(bank, account, waiter))
    assert (len(bank.asked), account.purse.left) == (2, 0)


async def hears_that_it_is_short(bank: Bank, account: Account, waiter: Patient) -> None:
    account.wait(waiter, 10)
    bank.asked[0](Leased(None, Short(amount=20, spent=0, leased=20)))


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
