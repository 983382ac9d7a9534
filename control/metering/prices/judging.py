"""A price beside what its tokens cost: one that asks less must say why."""

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction

from control import checks
from control.metering.cost.rules import Impossible, Possible, check_claim, fraction_text
from control.metering.prices.costs import ClassCosts, costs
from control.metering.prices.proposal import Below, below_cost
from control.metering.prices.wanted import PriceWanted, RowWanted
from control.metering.rules import PICO_PER_TOKEN, per_million_text

BELOW_MAX = 4  # told of one version


def judge(wanted: PriceWanted, at: datetime) -> dict | None:
    """What its tokens cost, if that is known; refused if it asks less and does not say why."""
    cost: ClassCosts = costs(wanted.model, at)
    if cost.practised is None or cost.currency != wanted.currency:
        return None
    below = below_cost(wanted.rows, cost.practised)
    premise = premise_of(below, wanted.rows, cost)
    if below and not wanted.below_cost_reason:
        named = "; ".join(map(str, below[:BELOW_MAX]))
        more = f" and {len(below) - BELOW_MAX} more" if len(below) > BELOW_MAX else ""
        what = (
            f"is needed to ask less than tokens cost in {cost.currency} per million at the use of"
            f" the last 30 days: {named}{more}{premise and '. '}{premise}"
        )
        raise checks.refuse("below_cost_reason", what)
    return cost.told | {"below": [str(one) for one in below], "premise": premise}


def premise_of(below: Sequence[Below], rows: Sequence[RowWanted], cost: ClassCosts) -> str:
    """What would have to be true for the price of output to pay the cost. Nothing is said where
    output has several prices, or versions several weights: no single one would."""
    picos = {row.output_pico for row in rows}
    if len(picos) > 1 or not cost.weights or all(one.token_class != "output" for one in below):
        return ""
    [pico] = picos
    asked, price = f"Output at {per_million_text(pico)}", Fraction(pico, PICO_PER_TOKEN)
    match check_claim(cost.cost, cost.volume, price, cost.weights):
        case Impossible(reason=reason):
            return f"{asked} cannot pay for this use: {reason}"
        case Possible(output_weight=weight):
            return (
                f"{asked} pays for it if an output token takes {fraction_text(weight, 1)} times"
                f" the time of one of input; it takes {fraction_text(cost.weights.output, 1)}"
            )
