"""A price beside what its tokens cost: one that asks less must say why."""

from datetime import datetime

from control import checks
from control.metering.prices.costs import ClassCosts, costs
from control.metering.prices.proposal import below_cost
from control.metering.prices.wanted import PriceWanted

BELOW_MAX = 4  # told of one version


def judge(wanted: PriceWanted, at: datetime) -> dict | None:
    """What its tokens cost, if that is known; refused if it asks less and does not say why."""
    cost: ClassCosts = costs(wanted.model, at)
    if cost.practised is None or cost.currency != wanted.currency:
        return None
    below = below_cost(wanted.rows, cost.practised)
    if below and not wanted.below_cost_reason:
        named = "; ".join(map(str, below[:BELOW_MAX]))
        more = f" and {len(below) - BELOW_MAX} more" if len(below) > BELOW_MAX else ""
        what = (
            f"is needed to ask less than tokens cost in {cost.currency} per million at the use of"
            f" the last 30 days: {named}{more}"
        )
        raise checks.refuse("below_cost_reason", what)
    return cost.told | {"below": [str(one) for one in below]}
