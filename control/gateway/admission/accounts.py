"""One budget's account as a process knows it: its purse, who waits, and what is asked for them."""

import asyncio
import functools
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

import psycopg

from control.gateway.admission.credit import Purse, Unfunded
from control.gateway.admission.lender import Away, Work
from control.gateway.limits import Limits
from control.metering import credit
from control.metering.credit import Granted, Opened, Short, Wanted
from control.metering.rules import ENDED_BY_THE_PLATFORM
from control.routes.snapshot import BudgetInfo
from control.states import BudgetUnit

log = logging.getLogger(__name__)

_FORGOTTEN_SECONDS = 60.0
_FREE = [str(outcome) for outcome in ENDED_BY_THE_PLATFORM]


class Bank(Protocol):
    """Where all accounts of the process ask."""

    limits: Limits
    clock: Callable[[], float]
    shares: int
    owner: str

    def ask(self, work: Work, on_answer: Callable[[object], None]) -> None: ...


class Waiter(Protocol):
    """A call that needs more than is left."""

    def try_to_hold(self) -> bool: ...

    def refuse_for(self, account: "Account") -> None: ...


class Asked(NamedTuple):
    """One question of the lender."""

    budget: BudgetInfo
    at: datetime  # of the period
    account_id: int | None  # once it is known
    wanted: Wanted
    calls_in: bool  # a call waits: others are asked for what they keep


class Leased(NamedTuple):
    opened: Opened | None  # if it was not known
    answer: Granted | Short | None  # None: there is no such budget any more


class Account:
    def __init__(self, bank: Bank, budget: BudgetInfo, at: float) -> None:
        self.budget = budget
        self.purse = Purse()
        self.waiting: dict[Waiter, int] = {}  # units of each, in the order they came
        self._bank = bank
        self._at = datetime.fromtimestamp(at, UTC)
        self._asking = False
        self._retries = False  # in a moment, and not before
        self._short: Short | None = None  # as it was last heard
        self._short_at = 0.0
        self._retired = False

    # --- what calls do ---

    def take(self, units: int) -> None:
        now = self._bank.clock()
        self.purse.take(units, now)
        if self.purse.is_low(now) and not self._retired:
            self._ask()

    def wait(self, waiter: Waiter, units: int) -> None:
        self.waiting[waiter] = units
        self.ask_for_waiting()

    def ask_for_waiting(self) -> None:
        head = next(iter(self.waiting.values()), 0)
        if self.purse.left < head and not self._retries:
            self._ask()

    def settle(self, units: int, used: int) -> None:
        now = self._bank.clock()
        self.purse.settle(units, used, now)
        if self.purse.debt:
            debt, self.purse.debt = self.purse.debt, 0
            self._send(credit.lease, wanted=Wanted(debt, forced=True))
        self._serve()
        self._tidy(now)

    def is_dry(self, units: int) -> bool:
        """It said a moment ago that so much is not there, whoever gives back what."""
        return self._is_short_now() and self._short.amount - self._short.spent < units

    def unfunded(self, requested: int) -> Unfunded:
        if not self._is_short_now():
            return Unfunded(self.budget, requested, known=False)
        amount, spent, leased = self._short
        return Unfunded(self.budget, requested, amount, spent, max(leased - self.purse.left, 0))

    # --- what is kept for them ---

    def sweep(self, now: float) -> None:
        self._tidy(now)

    def is_forgettable(self, now: float) -> bool:
        """A minute without a call, and nothing is leased: whoever comes next asks anew."""
        if self.purse.left or self.purse.held or self.waiting or self._asking:
            return False
        return now - self.purse.used_at >= _FORGOTTEN_SECONDS

    def be_lean(self) -> None:
        """Somebody needs what others only keep."""
        now = self._bank.clock()
        self.purse.lean_until = now + self._bank.limits.money_lean_seconds
        self._tidy(now)

    def retire(self) -> None:
        """Calls that run still settle in it."""
        self._retired = True
        self._give_back(self.purse.empty())

    # --- inside ---

    def _ask(self) -> None:
        """One question at a time: what comes back is for all who wait by then."""
        if self._asking:
            return
        self._asking = True
        purse = self.purse
        first = next(iter(self.waiting.values()), 0)
        asked = Asked(
            budget=self.budget,
            at=self._at,
            account_id=purse.account_id,
            wanted=Wanted(
                least=max(first - purse.left, 1),
                more=purse.wanted(self._bank.clock()),
                shares=self._bank.shares,
            ),
            calls_in=bool(self.waiting),
        )
        self._bank.ask(functools.partial(_lease, self._bank.owner, asked), self._on_leased)

    def _ask_again(self) -> None:
        self._retries = False
        self.ask_for_waiting()

    def _on_leased(self, leased: Leased | Away) -> None:
        self._asking = False
        if isinstance(leased, Away) or leased.answer is None:
            self._short = None
            return self._refuse_all()
        if leased.opened:
            self.purse.account_id, self.purse.begins_at, self.purse.ends_at = leased.opened
        if isinstance(leased.answer, Granted):
            self._short = None
            self.purse.granted(leased.answer.units)
            self._serve()
        else:
            self._short, self._short_at = leased.answer, self._bank.clock()
            self.be_lean()
            self._refuse_the_dry()
            if self.waiting and not self._retries:
                self._retries = True
                retry_seconds = self._bank.limits.money_retry_seconds
                asyncio.get_running_loop().call_later(retry_seconds, self._ask_again)
        return self._tidy(self._bank.clock())

    def _serve(self) -> None:
        """In the order they came: a large call is not passed by small ones for ever."""
        for waiter in tuple(self.waiting):
            if not self._tell(waiter, waiter.try_to_hold):
                break

    def _refuse_the_dry(self) -> None:
        for waiter, units in tuple(self.waiting.items()):
            if self.is_dry(units):
                self._tell(waiter, functools.partial(waiter.refuse_for, self))

    def _refuse_all(self) -> None:
        for waiter in tuple(self.waiting):
            self._tell(waiter, functools.partial(waiter.refuse_for, self))

    def _tell(self, waiter: Waiter, act: Callable[[], bool | None]) -> bool | None:
        """One that fails on what it hears waits no more: others do behind it."""
        try:
            return act()
        except Exception:
            log.exception("a call could not be told of its budget")
        self.waiting.pop(waiter, None)
        return True

    def _is_short_now(self) -> bool:
        if self._short is None:
            return False
        return self._bank.clock() - self._short_at < self._bank.limits.money_dry_seconds

    def _tidy(self, now: float) -> None:
        """Not while it asks for what is missing beside it: two processes near the end of a budget
        would each hand back the part that the other one's question counts on, for ever."""
        if self._asking and self.waiting:
            return
        idle_seconds = 0.0 if self._retired else self._bank.limits.money_idle_seconds
        head = next(iter(self.waiting.values()), 0)
        self._give_back(self.purse.spare(now, head=head, idle_seconds=idle_seconds))

    def _give_back(self, units: int) -> None:
        if units:
            self._send(credit.give_back, units=units)

    def _send(self, act: Callable, **named: object) -> None:
        account_id, owner = self.purse.account_id, self._bank.owner
        self._bank.ask(lambda database: act(database, account_id, owner, **named), _ignored)


def _lease(owner: str, asked: Asked, database: psycopg.Connection) -> Leased:
    """In the lender's thread."""
    opened, account_id = None, asked.account_id
    if account_id is None:
        opened = _opened(asked, database)
        if opened is None:
            return Leased(None, None)
        account_id = opened.id
    wanted = asked.wanted
    answer = credit.lease(database, account_id, owner, wanted)
    is_short = isinstance(answer, Short) and answer.amount - answer.spent >= wanted.least
    if is_short and asked.calls_in:
        credit.call_in(database, account_id, owner)
    return Leased(opened, answer)


def _opened(asked: Asked, database: psycopg.Connection) -> Opened | None:
    budget = asked.budget
    if budget.unit == BudgetUnit.CREDIT:
        return credit.credit_account_of(database, budget.id)
    return credit.account_of(database, budget.id, budget.unit, asked.at, _FREE)


def _ignored(_answer: object) -> None:
    """If it was not done, the lease is larger than what is here, until this process ends."""
