"""What the tokens of a model cost us, as prices are proposed from it and judged by it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from control.metering.cost.facts import ModelCost, cost_of_model
from control.metering.cost.rules import PerMillion, Volume, Weights, fraction_text

DAYS = 30  # before the instant that is asked about

ByClass = dict[str, Fraction]


@dataclass(frozen=True)
class ClassCosts:
    """Full cost per million of each class; none, and why, of what has no device of ours."""

    currency: str
    cost: Fraction
    volume: Volume
    weights: Weights | None  # none: of versions with different ones
    practised: ByClass | None
    at_wanted_use: ByClass | None
    wanted_use: Fraction
    utilisation_ratio: Fraction | None
    since: datetime
    until: datetime
    formula: str
    reason: str

    @property
    def told(self) -> dict:
        """To be kept with what was decided by it."""
        return {
            "currency": self.currency,
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "practised": texts(self.practised),
            "at_wanted_use": texts(self.at_wanted_use),
            "utilisation": ratio_text(self.utilisation_ratio),
        }


def costs(model: str, at: datetime) -> ClassCosts:
    found: ModelCost = cost_of_model(model, at - timedelta(days=DAYS), at)
    return ClassCosts(
        currency=found.currency,
        cost=found.cost,
        volume=found.volume,
        weights=found.weights,
        practised=_by_class(found.practised),
        at_wanted_use=_by_class(found.at_wanted_use),
        wanted_use=found.wanted_use,
        utilisation_ratio=found.utilisation_ratio,
        since=found.since,
        until=found.until,
        formula=found.formula,
        reason=found.reason,
    )


def texts(costs: ByClass | None) -> dict[str, str] | None:
    return costs and {name: fraction_text(cost) for name, cost in costs.items()}


def ratio_text(ratio: Fraction | None) -> str | None:
    return None if ratio is None else fraction_text(ratio, 4)


def _by_class(cost: PerMillion | None) -> ByClass | None:
    """Reasoning takes as much device time as any other output."""
    if cost is None:
        return None
    return {
        "input": cost.input,
        "cached_input": cost.cached_input,
        "output": cost.output,
        "reasoning": cost.output,
    }
