"""What a process holds of a budget ahead of its calls, and what a call holds of that (pure)."""

from collections.abc import Iterable
from datetime import UTC, datetime
from math import inf
from typing import NamedTuple

from control.metering.prices.rules import (
    Prices,
    charge,
    dearest,
    most_pico,
    tokens_counted,
    units_of,
)
from control.metering.records import Close
from control.metering.rules import Tokens, clamp
from control.routes.snapshot import BudgetInfo, Routes, Scope, TargetInfo
from control.states import BudgetUnit

_WINDOW_SECONDS = 60.0


class Spending(NamedTuple):
    """Which budgets pay for the calls of the same scopes on the same route, by which prices."""

    budgets: tuple[BudgetInfo, ...]
    models: tuple[str, ...]  # any of them may answer
    prices: Prices  # of all models


class Buyer(NamedTuple):
    """Whose call it is, and how urgent it is served."""

    tenant_id: int
    priority: str


class Stake(NamedTuple):
    """The most that a call may cost each of its budgets."""

    spending: Spending
    units: tuple[int, ...]


class Unpriced(NamedTuple):
    """What such a call costs is not known, so no budget can be held to it."""

    model: str
    currency: str


class Unfunded(NamedTuple):
    """A budget has too little left. All are in its units; nothing is known while it is away."""

    budget: BudgetInfo
    requested: int
    amount: int = 0
    spent: int = 0
    held: int = 0  # by other calls
    known: bool = True


def spending_of(
    scopes: Iterable[Scope], targets: Iterable[TargetInfo], fallback: str | None, routes: Routes
) -> Spending | None:
    """None, as for most: nobody has given them a budget.

    `targets` and `fallback` are those that may answer the call, after the rules of its route.
    """
    budgets = tuple(budget for scope in scopes for budget in scope.budgets)
    if not budgets:
        return None
    names = {target.deployment for target in targets if target.weight > 0}
    names |= {fallback} if fallback else set()
    known = routes.deployments
    models = {known[name].model if name in known else "" for name in names}
    return Spending(budgets, tuple(sorted(models)), Prices(routes.prices, routes.own_prices))


def stake_of(
    spending: Spending, buyer: Buyer, at: datetime, *, input_tokens: int, output_tokens: int
) -> Stake | Unpriced:
    """All that it may read and write, each at the dearest price that may hold for it.

    Its priority is known; how far its tenant's volume has come is not, so any tier may hold.
    """
    units = []
    for budget in spending.budgets:
        if budget.unit == BudgetUnit.TOKENS:
            units.append(input_tokens + output_tokens)
            continue
        most = 0
        for model in spending.models:
            tiers = spending.prices.tiers(buyer.tenant_id, model, buyer.priority, at)
            if not tiers or tiers[0].currency != budget.currency:
                return Unpriced(model, budget.currency)
            most = max(most, most_pico(tiers, input_tokens, output_tokens))
        units.append(most)
    return Stake(spending, tuple(units))


def charged(spending: Spending, close: Close, model: str) -> tuple[int, ...]:
    """What a call that has ended takes of each lease: as ingest will, at the dearest tier."""
    tokens = clamp(
        Tokens(
            close.input_tokens,
            close.cached_input_tokens,
            close.output_tokens,
            close.reasoning_tokens,
            close.delivered_tokens,
        )
    )
    at = datetime.fromtimestamp(close.started_at, UTC)
    tiers = spending.prices.tiers(close.tenant_id, model, close.priority, at)
    price = dearest(tiers, close.outcome, tokens)
    bill = charge(close.outcome, tokens, price)
    counted = tokens_counted(close.outcome, tokens, price)
    return tuple(
        units_of(budget.unit, budget.currency, bill, counted) for budget in spending.budgets
    )


class Purse:
    """Units of one account. `left` + `held` + what is spent and not stored yet = its lease.

    It is lean near the end of the budget: then it holds for calls that run, and nothing beside.
    """

    __slots__ = (
        "account_id", "begins_at", "debt", "ends_at", "held", "left", "lean_until", "used_at",
        "_minute", "_recent", "_spent",
    )  # fmt: skip

    def __init__(self) -> None:
        self.account_id: int | None = None
        self.begins_at = -inf  # epoch seconds
        self.ends_at = inf
        self.left = 0
        self.held = 0
        self.debt = 0  # spent beyond what was leased, and not asked for yet
        self.lean_until = -inf
        self.used_at = -inf
        self._minute = -inf  # when the window began that `_spent` is of
        self._spent = self._recent = 0

    def take(self, units: int, now: float) -> bool:
        self.used_at = now
        if units > self.left:
            return False
        self.left -= units
        self.held += units
        return True

    def settle(self, units: int, used: int, now: float) -> None:
        """Once, by what the call used: nothing, if it failed."""
        self.held -= units
        self.left += units - used
        if self.left < 0:
            self.debt -= self.left
            self.left = 0
        self._roll(now)
        self._spent += used

    def granted(self, units: int) -> None:
        self.left += units

    def spare(self, now: float, *, head: int, idle_seconds: float) -> int:
        """What is to be given back, and is no longer here. `head` is what a call waits for.

        Near the end a part that is too small for it goes back too: two processes that keep half
        of what one call needs would let none in.
        """
        if now < self.lean_until:
            keep = head if self.left >= head else 0
        elif head or (idle_seconds and (self.held or now - self.used_at < idle_seconds)):
            return 0  # who calls now and then is served without the database too
        else:
            keep = 0
        spare = self.left - keep
        self.left = keep
        return spare

    def empty(self) -> int:
        left, self.left = self.left, 0
        return left

    def wanted(self, now: float) -> int:
        """Beside what calls wait for: a minute's spend, or as much as calls hold now."""
        if now < self.lean_until:
            return 0
        self._roll(now)
        return max(self._spent, self._recent, self.held)

    def is_low(self, now: float) -> bool:
        """It is time to ask for more, before a call has to wait."""
        return now >= self.lean_until and self.left * 2 < self.wanted(now)

    def _roll(self, now: float) -> None:
        if now - self._minute >= _WINDOW_SECONDS:
            fresh = now - self._minute < 2 * _WINDOW_SECONDS
            self._recent = self._spent if fresh else 0
            self._minute, self._spent = now, 0
