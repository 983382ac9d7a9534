"""What last month's calls would have cost by another version of a book. Pure; exact."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from control.metering.prices.rules import (
    Billed,
    PriceFacts,
    Rows,
    billed_of,
    cost_pico,
    row_of,
)
from control.metering.prices.wanted import PriceWanted
from control.metering.rules import Tokens, amount_text
from control.states import Interrupted

NOT_YET = 10**15  # ids of rows and of the book that is only asked for: newer than all that are

TiersOf = Callable[[int, str], Rows]  # of a tenant and a priority
Totals = dict[int, dict[str, int]]  # tenant -> currency -> pico-units


@dataclass(frozen=True)
class Traffic:
    """Calls of one tenant and priority that ended alike: either all had output or none had.

    `tokens.delivered` never exceeds the output, call by call; `sent_reasoning` is of it.
    """

    tenant_id: int
    priority: str
    outcome: str
    calls: int
    tokens: Tokens
    sent_reasoning: int = 0
    hour: datetime | None = None

    def billed(self, interrupted: str) -> Billed:
        tokens = self.tokens
        if interrupted == Interrupted.DELIVERED and self.outcome != "complete":
            tokens = tokens._replace(reasoning=self.sent_reasoning)
        return billed_of(self.outcome, tokens, interrupted)


@dataclass(frozen=True)
class Change:
    """What one tenant would pay more (or less), where that is in one currency."""

    tenant: str
    calls: int
    charged: tuple[str, ...]  # as it was, exact, with its currency
    now: tuple[str, ...]  # by the book that would hold without the new version
    new: tuple[str, ...]
    more_pico: int | None

    @property
    def more(self) -> str | None:
        return None if self.more_pico is None else amount_text(self.more_pico)


@dataclass(frozen=True)
class Preview:
    """The month that was reckoned with, and everyone whom the new version would price."""

    since: datetime
    until: datetime
    begins: datetime
    currency: str
    changes: tuple[Change, ...]
    others: int = 0  # tenants with calls whom it would not price: they have a book of their own

    @property
    def more(self) -> str | None:
        known = [change.more_pico for change in self.changes]
        return None if None in known else amount_text(sum(known))


def rows_of(wanted: PriceWanted, begins: datetime) -> Rows:
    """As they would be stored."""
    return tuple(
        PriceFacts(
            NOT_YET + number,
            wanted.currency,
            row.input_pico,
            row.cached_input_pico,
            row.output_pico,
            begins,
            row.reasoning_pico,
            row.priority,
            row.tier_from_tokens,
            wanted.interrupted,
            None,
            NOT_YET,
        )
        for number, row in enumerate(wanted.rows)
    )


def repriced(traffic: Iterable[Traffic], tiers_of: TiersOf) -> Totals:
    """In order of hours: the tier of an hour is that which the volume before it has reached."""
    totals: Totals = defaultdict(lambda: defaultdict(int))
    before: dict[int, int] = {}
    for _, hour in groupby(sorted(traffic, key=_when), key=_when):
        volumes = dict(before)
        for one in hour:
            tenant = one.tenant_id
            price = row_of(tiers_of(tenant, one.priority), before.get(tenant, 0))
            if price:
                billed = one.billed(price.interrupted)
                totals[tenant][price.currency] += cost_pico(billed, price)
                volumes[tenant] = volumes.get(tenant, 0) + sum(billed)
        before = volumes
    return totals


def _when(one: Traffic) -> tuple:
    return (one.hour,) if one.hour else ()


def difference(now: dict[str, int], new: dict[str, int]) -> int | None:
    """None, where two currencies cannot be compared."""
    if len(now.keys() | new.keys()) > 1:
        return None
    return sum(new.values()) - sum(now.values())


def told(amounts: dict[str, int]) -> tuple[str, ...]:
    return tuple(f"{amount_text(amounts[name])} {name}" for name in sorted(amounts))
