"""What tokens cost, by whatever it is asked for: figures rounded for people, reasons beside."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from control.metering.cost import figures, measured, parts, rules
from control.metering.cost import weights as weights_of
from control.metering.cost.figures import NO_DEVICES, Figure
from control.metering.cost.lines import TITLES, Line, percents
from control.metering.cost.rules import NoTokens, PerMillion, Volume, Weights

__all__ = ["NO_DEVICES"]
PLACES = 6
MILLION_MICROSECONDS = 10**6
WANTED_USE = Fraction(70, 100)  # of a pool that is well used


@dataclass(frozen=True)
class ClassCost:
    """Of a million tokens of each class; rounded half up to six decimals, for people."""

    input: Decimal
    cached_input: Decimal
    output: Decimal


@dataclass(frozen=True)
class LineCost:
    """One line of the device time: what it was, and what it cost."""

    line: str
    title: str
    device_seconds: float
    percent: Decimal  # those of all lines sum to 100.00
    cost: Decimal | None


@dataclass(frozen=True)
class GroupCost:
    """The cost of a group of calls and lines, its parts, and what it comes to for a token.

    It is never shown without the utilisation and the idle cost that are in it.
    """

    group: tuple
    calls: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    device_seconds: float
    busy_seconds: float
    utilisation_ratio: float | None
    idle_ratio: float | None  # of the cost, what no call was running for
    allocated_ratio: float | None
    currency: str
    hardware: Decimal | None
    power: Decimal | None
    engineering: Decimal | None
    spread: Decimal | None  # taken over from lines that nobody used; negative: given away
    cost: Decimal | None
    idle_cost: Decimal | None
    failure_and_idle: Decimal | None  # with what failed and what the platform asked for itself
    per_million: ClassCost | None
    reason: str  # why a figure is missing, or empty
    revenue: Decimal | None  # charged in the same currency
    margin_ratio: float | None
    power_assumed: bool  # a card of it draws what we assume
    lines: tuple[LineCost, ...]
    formula: str


@dataclass(frozen=True)
class ModelCost:
    """What a million tokens of each class cost a model, for whoever proposes a price; exact."""

    model: str
    currency: str
    since: datetime
    until: datetime
    cost: Fraction
    volume: Volume
    utilisation_ratio: Fraction | None
    weights: Weights | None  # none: its versions have different ones
    practised: PerMillion | None  # at the use that its devices had
    at_wanted_use: PerMillion | None  # the same work, were they used as wanted
    wanted_use: Fraction
    formula: str
    reason: str  # why a figure is missing, or empty


def costs_of_versions(since: datetime, until: datetime) -> list[GroupCost]:
    """Of all that had device time or calls, by model and version."""
    found = costs(["model", "version"], rules.hour_of(since), until, version__isnull=False)
    return sorted(found, key=lambda one: one.group)


def costs(
    group_by: Sequence[str], since: datetime, until: datetime, **only: object
) -> list[GroupCost]:
    """By pool, model, version, deployment, tenant, project, day, hour: in their order."""
    found = figures.figures(group_by, since, until, **only)
    unrated = _unrated(found, since, until)
    return [_group(figure, unrated) for figure in found]


def cost_of_model(
    model: str, since: datetime, until: datetime, wanted_use: Fraction = WANTED_USE
) -> ModelCost:
    """Over all versions of a model, by whole hours, in the currency of its devices' rates."""
    since = rules.hour_of(since)
    found = figures.figures(["model"], since, until, version__model__name=model)
    weights = weights_of.in_force(until)
    figure = found[0] if found else Figure((model,), weights=weights)
    reason, per_class = figure.reason(_unrated(found, since, until)), [None, None]
    if not reason:
        wanted = rules.at_use(figure.cost, figure.utilisation, wanted_use)
        for place, cost in enumerate((figure.cost, wanted)):
            match cost if cost is None else figure.per_million(cost):
                case NoTokens() as none:
                    reason = none.reason
                case PerMillion() as price:
                    per_class[place] = price
    of_all = figure.weighed[-1][1] if figure.weighed else rules.WEIGHTS
    is_one = all(one == of_all for _, one in figure.weighed)
    return ModelCost(
        model=model,
        currency=figure.currency,
        since=since,
        until=until,
        cost=figure.cost,
        volume=figure.volume,
        utilisation_ratio=figure.utilisation,
        weights=of_all if is_one else None,
        practised=per_class[0],
        at_wanted_use=per_class[1],
        wanted_use=wanted_use,
        formula=rules.formula(of_all),
        reason=reason,
    )


def _group(figure: Figure, unrated: list[str]) -> GroupCost:
    why = figure.reason(unrated)
    reason, per_million = why, None
    if not reason:
        match figure.per_million():
            case PerMillion() as price:
                values = (price.input, price.cached_input, price.output)
                per_million = ClassCost(*map(_money, values))
            case NoTokens() as none:
                reason = none.reason
    volume = figure.volume
    known = not why
    return GroupCost(
        group=figure.group,
        calls=figure.calls,
        input_tokens=volume.input_tokens,
        cached_input_tokens=volume.cached_input_tokens,
        output_tokens=volume.output_tokens,
        device_seconds=figure.microseconds / MILLION_MICROSECONDS,
        busy_seconds=figure.busy / MILLION_MICROSECONDS,
        utilisation_ratio=_ratio(figure.utilisation),
        idle_ratio=_ratio(figure.unused_cost / figure.cost if figure.cost else None),
        allocated_ratio=_ratio(
            Fraction(figure.allocated, figure.microseconds) if figure.microseconds else None
        ),
        currency=figure.currency,
        hardware=_money(figure.parts.hardware) if known else None,
        power=_money(figure.parts.power) if known else None,
        engineering=_money(figure.parts.engineering) if known else None,
        spread=_money(figure.spread) if known else None,
        cost=_money(figure.cost) if known else None,
        idle_cost=_money(figure.unused_cost) if known else None,
        failure_and_idle=_money(figure.failure_and_idle) if known else None,
        per_million=per_million,
        reason=reason,
        revenue=_money(figure.revenue[figure.currency]) if known else None,
        margin_ratio=_ratio(figure.margin) if known else None,
        power_assumed=bool(figure.assumed),
        lines=_lines(figure, known),
        formula=rules.formula(figure.weighed[-1][1] if figure.weighed else rules.WEIGHTS),
    )


def _lines(figure: Figure, known: bool) -> tuple[LineCost, ...]:
    shown = percents(figure.lines)
    return tuple(
        LineCost(
            line=str(line),
            title=TITLES[line],
            device_seconds=figure.lines[line] / MILLION_MICROSECONDS,
            percent=shown[line],
            cost=_money(figure.line_costs[line]) if known else None,
        )
        for line in Line
        if figure.lines[line]
    )


def _unrated(found: Sequence[Figure], since: datetime, until: datetime) -> list[str]:
    """Names of devices that no rate fits; asked for only where one is missing."""
    if not any(figure.unrated for figure in found):
        return []
    known = measured.rates()
    return [
        name
        for name in figures.device_names(since, until)
        if parts.rate_in_force(known, name, until) is None
    ]


def _money(value: Fraction) -> Decimal:
    return rules.round_half_up(value, PLACES)


def _ratio(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
