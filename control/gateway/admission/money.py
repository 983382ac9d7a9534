"""Budgets of money and tokens: credit leased ahead of calls, which hold what they may cost."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Protocol

from control.gateway.admission.accounts import Account
from control.gateway.admission.answers import unpriced
from control.gateway.admission.credit import (
    Buyer,
    Spending,
    Stake,
    Unfunded,
    Unpriced,
    charged,
    stake_of,
)
from control.gateway.admission.lender import Away, Lender, Work
from control.gateway.admission.rules import Hold
from control.gateway.limits import Limits
from control.metering.records import Close
from control.routes.snapshot import BudgetInfo, Scope

Name = tuple[int, str]  # of a budget, and the unit
OnAnswer = Callable[[Unfunded | None], None]


class Asked(Protocol):
    """What was judged of a call's body."""

    model: str
    choices: int


class Money:
    """All budgets of one gateway process. A MoneyHold is one call's part in them."""

    def __init__(
        self,
        lender: Lender | None,
        *,
        processes: int,
        limits: Limits,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self.is_away = False  # the database, when it was last asked
        self.limits = limits
        self.clock = clock
        self._wall = wall
        self.shares = 2 * processes  # of what is free, a process leases one
        self.owner = lender.owner if lender else ""
        self._lender = lender
        self._accounts: dict[Name, Account] = {}
        if lender:
            lender.on_called_in = self._called_in

    def know(self, scopes: Iterable[Scope]) -> None:
        """A budget that has changed is asked for again, and one that is gone is given back."""
        budgets = {(budget.id, budget.unit): budget for scope in scopes for budget in scope.budgets}
        if budgets and self._lender:
            self._lender.warm()
        for name, account in tuple(self._accounts.items()):
            if budgets.get(name) != account.budget:
                account.retire()
                del self._accounts[name]

    def staked(
        self, hold: Hold, spending: Spending, buyer: Buyer, ask: Asked, max_tokens: int | None
    ) -> tuple[Hold, int | None]:
        """The call's hold with the most that it may cost, and the max_tokens that make it so."""
        if max_tokens is None and ask.choices:
            max_tokens = self.limits.output_tokens_unbounded
        stake = stake_of(
            spending,
            buyer,
            datetime.fromtimestamp(self._wall(), UTC),
            input_tokens=hold.input_tokens,
            output_tokens=ask.choices * (max_tokens or 0),
        )
        if isinstance(stake, Unpriced):
            raise unpriced(stake, ask.model)
        return hold._replace(money=MoneyHold(self, stake)), max_tokens

    def sweep(self, now: float) -> None:
        for name, account in tuple(self._accounts.items()):
            account.sweep(now)
            if account.is_forgettable(now):
                del self._accounts[name]

    def close(self) -> None:
        """What is left goes back; what calls have spent is in the spool."""
        for account in self._accounts.values():
            account.retire()
        if self._lender:
            self._lender.stop(self.limits.money_close_seconds)

    # --- of accounts and holds ---

    def account_of(self, budget: BudgetInfo, at: float) -> Account:
        name = (budget.id, budget.unit)
        found = self._accounts.get(name)
        if found is None or at >= found.purse.ends_at:  # the next period has an account of its own
            if found:
                found.retire()
            found = self._accounts[name] = Account(self, budget, at)
        return found

    def ask(self, work: Work, on_answer: Callable[[object], None]) -> None:
        """`work` runs in the lender's thread, `on_answer` gets what it returns, or an Away."""

        def heard(answer: object) -> None:
            self.is_away = isinstance(answer, Away)
            on_answer(answer)

        if self._lender is None:
            return heard(Away())
        return self._lender.ask(work, heard, asyncio.get_running_loop().call_soon_threadsafe)

    def _called_in(self, account_id: int) -> None:
        for account in self._accounts.values():
            if account.purse.account_id == account_id:
                account.be_lean()


class MoneyHold:
    """What one call holds of its budgets: all that it may cost, or nothing."""

    def __init__(self, money: Money, stake: Stake) -> None:
        self._money = money
        self._stake = stake
        self._on_answer: OnAnswer | None = None
        self._accounts: list[Account] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False  # answered, or nobody waits for the answer
        self._holds = False

    def begin(self, started_at: float, on_answer: OnAnswer) -> None:
        """Answers at once, unless credit must be leased first."""
        self._on_answer = on_answer
        budgets = self._stake.spending.budgets
        self._accounts = [self._money.account_of(each, started_at) for each in budgets]
        if not any(account.waiting for account in self._accounts) and self.try_to_hold():
            return None
        for account, units in self._each():
            if account.is_dry(units):
                return self.refuse_for(account)
        loop, seconds = asyncio.get_running_loop(), self._money.limits.money_seconds
        self._timer = loop.call_later(seconds, self._give_up)
        for account, units in self._each():
            if not self._is_over:
                account.wait(self, units)
        return None

    def try_to_hold(self) -> bool:
        """All budgets have room, or nothing is taken of any. False: it waits on."""
        if self._is_over:
            return True
        lacking = [account for account, units in self._each() if account.purse.left < units]
        if lacking:
            for account in lacking:
                account.ask_for_waiting()
            return False
        self._holds = True
        for account, units in self._each():
            account.take(units)
        self._answer(None)
        return True

    def refuse_for(self, account: Account) -> None:
        if not self._is_over:
            requested = self._stake.units[self._accounts.index(account)]
            self._answer(account.unfunded(requested))

    def settle(self, close: Close | None = None, model: str = "") -> None:
        """Once, by what is written down. A call that no engine has seen costs nothing."""
        self._leave()
        if not self._holds:
            return
        used = (0,) * len(self._accounts)
        if close:
            used = charged(self._stake.spending, close, model)
        self._holds = False  # only now: what cannot be reckoned is still given back
        for (account, units), spent in zip(self._each(), used, strict=True):
            account.settle(units, spent)

    # --- inside ---

    def _each(self) -> Iterable[tuple[Account, int]]:
        return zip(self._accounts, self._stake.units, strict=True)

    def _give_up(self) -> None:
        lacking = [account for account, units in self._each() if account.purse.left < units]
        self.refuse_for((lacking or self._accounts)[0])

    def _answer(self, answer: Unfunded | None) -> None:
        self._leave()
        self._on_answer(answer)

    def _leave(self) -> None:
        self._is_over = True
        if self._timer:
            self._timer.cancel()
            self._timer = None
            for account in self._accounts:
                account.waiting.pop(self, None)
