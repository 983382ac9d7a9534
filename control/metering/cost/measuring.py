"""Weights of token classes, measured from hours of cost: what an operator may take over."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from control import checks
from control.metering.cost import figures
from control.metering.cost.actions import save_token_weights
from control.metering.cost.regression import HourOfUse, Measured, NotMeasured, measure
from control.metering.cost.rules import Volume, round_half_up
from control.metering.cost.wanted import token_weights_wanted
from control.models import TokenWeights

MEASURED_OVER = timedelta(days=30)
PLACES = 6
ROWS_MAX = 200


@dataclass(frozen=True)
class Weighing:
    """What hours of use say of one version, or why they say nothing yet."""

    model: str
    version: str
    cached_input: Decimal | None
    output: Decimal | None
    hours: int
    reason: str


@dataclass(frozen=True)
class WeightsEntry:
    """One entry of those that hold or held."""

    subject: str
    cached_input: Decimal
    output: Decimal
    source: str
    hours: int
    valid_from: datetime


def weighings(at: datetime, version: tuple[str, str] | None = None) -> list[Weighing]:
    """Of every version that served in the last 30 days, or of one as (model, version)."""
    hours: dict[tuple[str, str], list[HourOfUse]] = defaultdict(list)
    only = {"version__model__name": version[0], "version__name": version[1]} if version else {}
    rows = figures.figures(["model", "version", "hour"], at - MEASURED_OVER, at, **only)
    for figure in rows:
        model, name, _ = figure.group
        volume: Volume = figure.volume
        if model is not None and figure.microseconds:
            uncached = volume.input_tokens - volume.cached_input_tokens
            classes = (uncached, volume.cached_input_tokens, volume.output_tokens)
            hours[model, name].append(
                HourOfUse(*(max(0, of) for of in classes), figure.busy, figure.microseconds)
            )
    return [_weighing(*named, measure(of)) for named, of in sorted(hours.items())][:ROWS_MAX]


def take_over(model: str, version: str, *, by: str, reason: str, at: datetime) -> TokenWeights:
    """What was measured holds from now on; what held before stays with its hours."""
    found = weighings(at, (model, version))
    if not found or found[0].output is None:
        why = found[0].reason if found else "it served in none of the last 30 days"
        raise checks.refuse("version", f"{model}:{version} cannot be measured: {why}")
    one = found[0]
    wanted = token_weights_wanted(model, version, one.cached_input, one.output)
    return save_token_weights(wanted, by=by, reason=reason, at=at, hours=one.hours)


def entries() -> list[WeightsEntry]:
    """Newest first; those that are to begin are among them."""
    rows = TokenWeights.objects.select_related("model", "version__model")
    return [
        WeightsEntry(
            subject=str(row.version or row.model),
            cached_input=row.cached_input,
            output=row.output,
            source=row.source,
            hours=row.hours,
            valid_from=row.valid_from,
        )
        for row in rows.order_by("-valid_from", "-pk")[:ROWS_MAX]
    ]


def _weighing(model: str, version: str, found: Measured | NotMeasured) -> Weighing:
    match found:
        case NotMeasured(reason):
            return Weighing(model, version, None, None, 0, reason)
        case Measured(weights, hours, _):
            values = (weights.cached_input, weights.output)
            shown = (round_half_up(value, PLACES) for value in values)
            return Weighing(model, version, *shown, hours, "")
