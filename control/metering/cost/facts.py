"""What versions cost: their device time at its rate, over the tokens they served."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from django.db.models import Sum

from control.metering.cost import parts as costs_of
from control.metering.cost import rules
from control.metering.cost.parts import RateFacts
from control.metering.cost.rules import NoTokens, PerMillion, Spent, Volume, Weights
from control.metering.rules import PICO
from control.models import CostRate, Replica, ReplicaUse, Reservation, UsageEvent, Version

PLACES = 6
WANTED_USE = Fraction(70, 100)  # of a pool that is well used
NO_DEVICES = "no device of ours was held for it in this time"


@dataclass(frozen=True)
class ClassCost:
    """Of a million tokens of each class; rounded half up to six decimals, for people."""

    input: Decimal
    cached_input: Decimal
    output: Decimal


@dataclass(frozen=True)
class VersionCost:
    """A cost is never shown without the utilisation and the idle cost that are in it."""

    model: str
    version: str
    version_id: int
    since: datetime
    until: datetime
    calls: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    device_seconds: float
    busy_seconds: float
    utilisation_ratio: float | None
    currency: str
    cost: Decimal | None
    idle_cost: Decimal | None
    per_million: ClassCost | None
    reason: str  # why a figure is missing, or empty
    revenue: Decimal | None  # charged in the same currency
    margin_ratio: float | None
    formula: str


@dataclass(frozen=True)
class _Use:
    """One replica's device time in one hour, and the names of its devices."""

    version_id: int
    hour: datetime
    device_seconds: Fraction
    busy_seconds: Fraction
    devices: tuple[str, ...]


@dataclass(frozen=True)
class _Priced:
    """Device time with its cost, or why it has none."""

    spent: Spent
    currency: str
    reason: str


def cost_per_million(version_id: int | None, since: datetime, until: datetime) -> list[VersionCost]:
    """Of one version or of all that had device time or calls, by whole hours, oldest model first.

    Device time is kept by the hour, so `since` counts from the full hour before it.
    """
    since = rules.hour_of(since)
    uses = _uses(version_id, since, until)
    volumes = _volumes(version_id, since, until)
    rates = _rates()
    wanted = sorted({use.version_id for use in uses} | set(volumes))
    versions = Version.objects.select_related("model").in_bulk(wanted)
    found = []
    for name in wanted:
        priced = _priced([use for use in uses if use.version_id == name], rates)
        found.append(_cost(versions[name], (since, until), priced, volumes[name]))
    return sorted(found, key=lambda cost: (cost.model, cost.version))


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
    weights: Weights
    practised: PerMillion | None  # at the use that its devices had
    at_wanted_use: PerMillion | None  # the same work, were they used as wanted
    wanted_use: Fraction
    formula: str
    reason: str  # why a figure is missing, or empty


def cost_of_model(
    model: str, since: datetime, until: datetime, wanted_use: Fraction = WANTED_USE
) -> ModelCost:
    """Over all versions of a model, by whole hours, in the currency of its devices' rates."""
    since = rules.hour_of(since)
    ids = set(Version.objects.filter(model__name=model).values_list("pk", flat=True))
    priced = _priced([one for one in _uses(None, since, until) if one.version_id in ids], _rates())
    volumes = _volumes(None, since, until)
    tokens = [volumes[name].tokens for name in ids & set(volumes)]
    volume = sum(tokens, Volume(0, 0, 0))
    spent, reason, found = priced.spent, priced.reason, [None, None]
    if not reason:
        wanted = rules.at_use(spent.cost, spent.utilisation_ratio, wanted_use)
        for place, cost in enumerate((spent.cost, wanted)):
            match cost if cost is None else rules.cost_per_million(cost, volume):
                case NoTokens() as none:
                    reason = none.reason
                case PerMillion() as price:
                    found[place] = price
    return ModelCost(
        model=model,
        currency=priced.currency,
        since=since,
        until=until,
        cost=spent.cost,
        volume=volume,
        utilisation_ratio=spent.utilisation_ratio,
        weights=rules.WEIGHTS,
        practised=found[0],
        at_wanted_use=found[1],
        wanted_use=wanted_use,
        formula=rules.formula(),
        reason=reason,
    )


def _cost(
    version: Version, times: tuple[datetime, datetime], priced: _Priced, volume: "_Volume"
) -> VersionCost:
    spent, reason = priced.spent, priced.reason
    per_million, margin, revenue = None, None, None
    if not reason:
        revenue = volume.revenue.get(priced.currency, Fraction(0))
        margin = rules.margin_ratio(revenue, spent.cost)
        match rules.cost_per_million(spent.cost, volume.tokens):
            case PerMillion() as price:
                costs = (price.input, price.cached_input, price.output)
                per_million = ClassCost(*(rules.round_half_up(cost, PLACES) for cost in costs))
            case NoTokens() as none:
                reason = none.reason
    utilisation = spent.utilisation_ratio
    return VersionCost(
        model=version.model.name,
        version=version.name,
        version_id=version.pk,
        since=times[0],
        until=times[1],
        calls=volume.calls,
        input_tokens=volume.tokens.input_tokens,
        cached_input_tokens=volume.tokens.cached_input_tokens,
        output_tokens=volume.tokens.output_tokens,
        device_seconds=float(spent.device_seconds),
        busy_seconds=float(spent.busy_seconds),
        utilisation_ratio=None if utilisation is None else float(utilisation),
        currency=priced.currency,
        cost=None if priced.reason else rules.round_half_up(spent.cost, PLACES),
        idle_cost=None if priced.reason else rules.round_half_up(spent.idle_cost, PLACES),
        per_million=per_million,
        reason=reason,
        revenue=None if revenue is None else rules.round_half_up(revenue, PLACES),
        margin_ratio=None if margin is None else float(margin),
        formula=rules.formula(),
    )


def _priced(uses: list[_Use], rates: list[RateFacts]) -> _Priced:
    """Each device's share of the time at its own rate; rates change from hour to hour."""
    parts, reasons, currencies = [], [], set()
    for use in uses:
        for device in use.devices or ("",):
            share = Fraction(1, len(use.devices) or 1)
            # As of the hour's end: a rate named within the hour holds for all of it.
            rate = costs_of.rate_in_force(rates, device, use.hour + rules.HOUR)
            if rate is None:
                reasons.append(f"no cost rate fits the device {device!r}: add one to service.yaml")
            else:
                currencies.add(rate.currency)
            per_hour = costs_of.cost_per_device_hour(rate).parts.whole if rate else Fraction(0)
            parts.append(
                rules.spent(use.device_seconds * share, use.busy_seconds * share, per_hour)
            )
    if len(currencies) > 1:
        reasons.append(f"its cost rates are in {' and '.join(sorted(currencies))}")
    reason = NO_DEVICES if not uses else next(iter(reasons), "")
    return _Priced(rules.total(parts), min(currencies, default=""), reason)


def _uses(version_id: int | None, since: datetime, until: datetime) -> list[_Use]:
    rows = list(ReplicaUse.objects.filter(hour__gte=since, hour__lt=until).values())
    replicas = Replica.objects.filter(pk__in={row["replica_id"] for row in rows})
    versions = {
        name: launched or wanted
        for name, launched, wanted in replicas.values_list(
            "pk", "version_id", "deployment__version_id"
        )
    }
    devices = _devices(versions)
    return [
        _Use(
            versions[row["replica_id"]],
            row["hour"],
            _seconds(row["device_seconds"]),
            _seconds(row["busy_seconds"]),
            devices.get(row["replica_id"], ()),
        )
        for row in rows
        if version_id in (None, versions[row["replica_id"]])
    ]


def _seconds(value: float) -> Fraction:
    """Whole milliseconds: no float comes near money."""
    return Fraction(round(value * 1000), 1000)


def _devices(replica_ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    found: dict[int, set[tuple[int, str]]] = defaultdict(set)
    rows = Reservation.objects.filter(replica_id__in=list(replica_ids))
    for replica_id, device_id, name in rows.values_list("replica_id", "device_id", "device__name"):
        found[replica_id].add((device_id, name))
    return {
        replica_id: tuple(name for _, name in sorted(devices))
        for replica_id, devices in found.items()
    }


def _rates() -> list[RateFacts]:
    return [RateFacts(**row) for row in CostRate.objects.values()]


@dataclass
class _Volume:
    calls: int = 0
    tokens: Volume = Volume(0, 0, 0)
    revenue: dict[str, Fraction] | None = None


def _volumes(version_id: int | None, since: datetime, until: datetime) -> dict[int, _Volume]:
    rows = UsageEvent.objects.filter(started_at__gte=since, started_at__lt=until)
    rows = rows.filter(version=version_id) if version_id else rows.exclude(version=None)
    sums = rows.values("version_id", "currency").annotate(
        amount=Sum("amount_pico"),
        fresh=Sum("input_tokens"),
        cached=Sum("cached_input_tokens"),
        output=Sum("output_tokens"),
        calls=Sum(1),
    )
    found: dict[int, _Volume] = defaultdict(lambda: _Volume(revenue={}))
    for row in sums.order_by("version_id", "currency"):
        volume = found[row["version_id"]]
        volume.calls += row["calls"]
        volume.tokens = Volume(
            volume.tokens.input_tokens + int(row["fresh"]),
            volume.tokens.cached_input_tokens + int(row["cached"]),
            volume.tokens.output_tokens + int(row["output"]),
        )
        if row["currency"]:
            volume.revenue[row["currency"]] = Fraction(int(row["amount"]), PICO)
    return found
