"""Prices proposed from what tokens cost, and those that are below it. Pure; exact fractions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from control import checks
from control.metering.prices.wanted import RowWanted
from control.metering.rules import PICO_PER_TOKEN, per_million_text

MARGIN_PERCENT_MAX = 95


@dataclass(frozen=True)
class Below:
    """A price that does not pay for the device time of its tokens."""

    row: RowWanted
    token_class: str
    price: str  # per million, as written
    cost: str

    def __str__(self) -> str:
        whose = self.row.priority or "every priority"
        tier = f" from {self.row.tier_from_tokens} tokens on" if self.row.tier_from_tokens else ""
        return f"{self.token_class} of {whose}{tier} at {self.price} costs {self.cost}"


def proposed(
    cost_per_million: Mapping[str, Fraction], margin_percent: int, step_pico: int
) -> dict[str, str]:
    """Per million of each class: what leaves the margin of the price, up to the next step.

    The margin is of the price, as every report of margins has it: (price - cost) / price.
    """
    checks.require(checks.whole("margin_percent", margin_percent, 0, MARGIN_PERCENT_MAX))
    share = Fraction(100 - margin_percent, 100)
    return {
        name: per_million_text(up_to_step(cost / share, step_pico))
        for name, cost in cost_per_million.items()
    }


def up_to_step(per_million: Fraction, step_pico: int) -> int:
    """Pico-units per token: the smallest multiple of the step that is not less."""
    return ceil(per_million * PICO_PER_TOKEN / step_pico) * step_pico


def below_cost(rows: Iterable[RowWanted], cost: Mapping[str, Fraction]) -> list[Below]:
    """Each price of each row against the cost of its class; reasoning costs as output does."""
    found = []
    for row in rows:
        picos = {
            "input": row.input_pico,
            "cached_input": row.cached_input_pico,
            "output": row.output_pico,
            "reasoning": row.reasoning_pico,
        }
        for name, pico in picos.items():
            full = cost["output" if name == "reasoning" else name] * PICO_PER_TOKEN
            if pico is not None and pico < full:
                shown = per_million_text(ceil(full))
                found.append(Below(row, name, per_million_text(pico), shown))
    return found


def margin(price_pico: int, cost_per_million: Fraction) -> Fraction | None:
    """Of the price, the part that is left after cost."""
    if not price_pico:
        return None
    return 1 - cost_per_million * PICO_PER_TOKEN / price_pico
