"""Cost rates, policies and weights: entries valid from an instant on; the past keeps its own."""

from dataclasses import asdict
from datetime import datetime

from django.db import transaction
from django.db.models import Model, QuerySet

from control import checks
from control.metering.cost.wanted import CostPoolWanted, CostRateWanted, TokenWeightsWanted
from control.models import CatalogModel, CostPool, CostRate, TokenWeights, Version
from control.models.audit import record

GIVEN, MEASURED = "given", "measured"


def save_cost_rate(wanted: CostRateWanted, *, by: str, reason: str, at: datetime) -> CostRate:
    """A new entry valid from `at`; the entry in force is returned if it is equal."""
    values = {
        name: value for name, value in asdict(wanted).items() if name not in ("device", "pool")
    }
    with transaction.atomic():
        entries = CostRate.objects.filter(device=wanted.device, pool=wanted.pool)
        before = _in_force(entries, at)
        if _same(before, values):
            return before
        rate = CostRate.objects.create(
            device=wanted.device, pool=wanted.pool, valid_from=at, **values
        )
        change = (_plain(before, values), _plain(rate, values))
        record("save cost rate", wanted.subject, by=by, reason=reason, at=at, change=change)
    return rate


def save_cost_pool(wanted: CostPoolWanted, *, by: str, reason: str, at: datetime) -> CostPool:
    """Who pays for idle devices from `at` on."""
    values = {"idle": str(wanted.idle), "practical_ratio": wanted.practical_ratio}
    with transaction.atomic():
        before = _in_force(CostPool.objects.filter(pool=wanted.pool), at)
        if _same(before, values):
            return before
        row = CostPool.objects.create(pool=wanted.pool, valid_from=at, **values)
        change = (_plain(before, values), _plain(row, values))
        record("save cost pool", wanted.pool, by=by, reason=reason, at=at, change=change)
    return row


def save_token_weights(
    wanted: TokenWeightsWanted,
    *,
    by: str,
    reason: str,
    at: datetime,
    hours: int = 0,
) -> TokenWeights:
    """Given by people, or measured over so many hours; they hold from `at` on, and stay kept."""
    source = MEASURED if hours else GIVEN
    values = {"cached_input": wanted.cached_input, "output": wanted.output, "source": source}
    with transaction.atomic():
        model = CatalogModel.objects.filter(name=wanted.model).first()
        version = Version.objects.filter(model=model, name=wanted.version).first()
        if model is None or (wanted.version and version is None):
            raise checks.unknown("model", f"there is no {wanted.subject!r}")
        before = _in_force(TokenWeights.objects.filter(model=model, version=version), at)
        if _same(before, values):
            return before
        row = TokenWeights.objects.create(
            model=model, version=version, hours=hours, valid_from=at, **values
        )
        change = (_plain(before, values), _plain(row, values))
        record("save token weights", wanted.subject, by=by, reason=reason, at=at, change=change)
    return row


def _in_force(entries: QuerySet, at: datetime) -> Model | None:
    return entries.filter(valid_from__lte=at).order_by("-valid_from", "-pk").first()


def _same(entry: Model | None, values: dict) -> bool:
    return entry is not None and all(getattr(entry, name) == values[name] for name in values)


def _plain(entry: Model | None, names: dict) -> dict | None:
    return {name: str(getattr(entry, name)) for name in names} if entry else None
