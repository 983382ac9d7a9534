"""Cost by whatever it is asked for, read from hours of cost: never without use and idle beside."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction

from django.db.models import F, QuerySet, Sum
from django.db.models.functions import TruncDay

from control import checks
from control.metering.cost import weights as weights_of
from control.metering.cost.lines import ALLOCATED, FAILURE_AND_IDLE, WORKED, Line
from control.metering.cost.parts import Parts
from control.metering.cost.rules import (
    WEIGHTS,
    NoTokens,
    PerMillion,
    Volume,
    Weights,
    cost_per_million,
    hour_of,
)
from control.metering.rules import PICO
from control.models import CostHour, DeviceHour

GROUPS = {
    "pool": F("pool"),
    "model": F("version__model__name"),
    "version": F("version__name"),
    "deployment": F("deployment__name"),
    "tenant": F("tenant__name"),
    "project": F("project__name"),
    "hour": F("hour"),
    "day": TruncDay("hour", tzinfo=UTC),
}
TENANTS = frozenset({"tenant", "project"})  # they pay for what nobody used, by policy
ROWS_MAX = 10_000
NO_DEVICES = "no device of ours was held for it in this time"
_SUMS = (
    *("device_microseconds", "assumed_microseconds", "calls", "input_tokens"),
    *("cached_input_tokens", "output_tokens", "ttft_ms_sum", "ttft_calls", "charged_pico"),
    *("hardware_pico", "power_pico", "engineering_pico", "spread_pico"),
)


@dataclass
class Figure:
    """Sums of one group; exact, as whole microseconds and fractions of money."""

    group: tuple
    lines: dict[Line, int] = field(default_factory=lambda: defaultdict(int))
    line_costs: dict[Line, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    parts: Parts = field(default_factory=Parts)
    spread: Fraction = Fraction(0)
    unrated: int = 0  # device time that no rate fits
    assumed: int = 0  # device time whose power is assumed
    calls: int = 0
    ttft_ms_sum: int = 0
    ttft_calls: int = 0
    served: dict[int | None, Volume] = field(default_factory=dict)  # by version
    on_devices: set[int | None] = field(default_factory=set)  # versions that are not external
    currencies: set[str] = field(default_factory=set)
    revenue: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    with_spread: bool = False
    weights: Mapping[int, Weights] = field(default_factory=dict)
    use_of_all: Fraction | None = None  # tenants have busy time alone: theirs is that of all

    @property
    def microseconds(self) -> int:
        return sum(self.lines.values())

    @property
    def busy(self) -> int:
        return sum(self.lines[line] for line in WORKED)

    @property
    def allocated(self) -> int:
        """With a launch on it."""
        return sum(self.lines[line] for line in ALLOCATED)

    @property
    def cost(self) -> Fraction:
        return self.parts.whole + (self.spread if self.with_spread else 0)

    @property
    def unused_cost(self) -> Fraction:
        """Of the cost, what no call was running for: idle and all the lines beside it."""
        own = sum((self.line_costs[line] for line in Line if line not in WORKED), Fraction(0))
        return own + (self.spread if self.with_spread else 0)

    @property
    def failure_and_idle(self) -> Fraction:
        """Of the cost, what no tenant's call had: failed work, the platform's own, and idle."""
        lines = (self.line_costs[line] for line in Line if line in FAILURE_AND_IDLE)
        return sum(lines, Fraction(0)) + (self.spread if self.with_spread else 0)

    @property
    def utilisation(self) -> Fraction | None:
        if self.with_spread:
            return self.use_of_all
        return Fraction(self.busy, self.microseconds) if self.microseconds else None

    @property
    def volume(self) -> Volume:
        return sum(self.served.values(), Volume(0, 0, 0))

    @property
    def currency(self) -> str:
        return min(self.currencies, default="")

    @property
    def weighed(self) -> list[tuple[Volume, Weights]]:
        return [
            (volume, self.weights.get(version, WEIGHTS))
            for version, volume in self.served.items()
            if version in self.on_devices
        ]

    @property
    def margin(self) -> Fraction | None:
        """Of what was charged in the currency of the cost, the part that is left after it."""
        charged = self.revenue[self.currency] if self.currency else Fraction(0)
        return (charged - self.cost) / charged if charged else None

    def per_million(self, cost: Fraction | None = None) -> PerMillion | NoTokens:
        return cost_per_million(self.cost if cost is None else cost, self.weighed)

    def reason(self, unrated: Sequence[str] = ()) -> str:
        """Why there is no cost, or empty."""
        if not self.microseconds and not self.spread:
            return NO_DEVICES
        if self.unrated:
            names = ", ".join(f"the device {name!r}" for name in unrated) or "some devices"
            return f"no cost rate fits {names}: add one to service.yaml"
        if len(self.currencies) > 1:
            return f"its cost rates are in {' and '.join(sorted(self.currencies))}"
        return ""


def figures(
    group_by: Sequence[str], since: datetime, until: datetime, **only: object
) -> list[Figure]:
    """By whole hours, `since` from the full hour before it; `only` narrows by a column."""
    for name in group_by:
        if name not in GROUPS:
            raise checks.refuse("group", f"{name!r} is unknown: use {', '.join(GROUPS)}")
    names = [f"by_{name}" for name in group_by]
    rows = (
        _hours(since, until, only)
        .annotate(**{f"by_{name}": GROUPS[name] for name in group_by})
        .values(*names, "line", "version_id", "pool", "currency", "price_currency")
        .annotate(**{f"sum_{name}": Sum(name) for name in _SUMS})
        .order_by(*names)
    )
    weights = weights_of.in_force(until)
    with_spread = bool(TENANTS & set(group_by))
    found: dict[tuple, Figure] = {}
    for row in rows:
        group = tuple(row[name] for name in names)
        if group not in found:
            if len(found) == ROWS_MAX:
                break
            found[group] = Figure(group, with_spread=with_spread, weights=weights)
        _add(found[group], row)
    if whole := sum(figure.microseconds for figure in found.values()):
        use = Fraction(sum(figure.busy for figure in found.values()), whole)
        for figure in found.values():
            figure.use_of_all = use
    return list(found.values())


def _add(figure: Figure, row: dict) -> None:
    line, time = Line(row["line"]), row["sum_device_microseconds"]
    parts = Parts(
        *(
            Fraction(int(row[f"sum_{name}_pico"]), PICO)
            for name in ("hardware", "power", "engineering")
        )
    )
    figure.lines[line] += time
    figure.line_costs[line] += parts.whole
    figure.parts += parts
    figure.spread += Fraction(int(row["sum_spread_pico"]), PICO)
    figure.assumed += row["sum_assumed_microseconds"]
    figure.calls += row["sum_calls"]
    figure.ttft_ms_sum += row["sum_ttft_ms_sum"]
    figure.ttft_calls += row["sum_ttft_calls"]
    if row["currency"]:
        figure.currencies.add(row["currency"])
    else:
        figure.unrated += time
    if row["pool"]:
        figure.on_devices.add(row["version_id"])
    if row["price_currency"]:
        figure.revenue[row["price_currency"]] += Fraction(int(row["sum_charged_pico"]), PICO)
    served = Volume(
        row["sum_input_tokens"], row["sum_cached_input_tokens"], row["sum_output_tokens"]
    )
    version = row["version_id"]
    figure.served[version] = figure.served.get(version, Volume(0, 0, 0)) + served


def _hours(since: datetime, until: datetime, only: Mapping[str, object]) -> QuerySet[CostHour]:
    return CostHour.objects.filter(hour__gte=hour_of(since), hour__lt=until, **only)


def device_names(since: datetime, until: datetime) -> list[str]:
    """Of the devices that were there, to say which of them no rate fits."""
    rows = DeviceHour.objects.filter(hour__gte=hour_of(since), hour__lt=until)
    return sorted(set(rows.values_list("name", flat=True).distinct()))
