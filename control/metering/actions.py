"""New prices and cost rates: entries valid from an instant on; the past keeps its own."""

from dataclasses import asdict
from datetime import datetime

from django.db import transaction

from control import checks
from control.metering.rules import CostRateWanted, PriceWanted
from control.models import CatalogModel, CostRate, Price, SnapshotPart
from control.models.audit import record
from control.states import Part


def save_price(wanted: PriceWanted, *, by: str, reason: str, at: datetime) -> Price:
    """A new entry valid from `at`; the entry in force is returned if it is equal."""
    values = {name: value for name, value in asdict(wanted).items() if name != "model"}
    with transaction.atomic():
        model = CatalogModel.objects.select_for_update().filter(name=wanted.model).first()
        if model is None:
            raise checks.unknown("model", f"there is no model {wanted.model!r}")
        entries = Price.objects.filter(model=model, valid_from__lte=at)
        in_force = entries.order_by("-valid_from", "-pk").first()
        before = _values(in_force, values)
        if before == values:
            return in_force
        price = Price.objects.create(model=model, valid_from=at, **values)
        SnapshotPart.raise_version(Part.ROUTES)  # gateways hold money by it
        record("save price", wanted.model, by=by, reason=reason, at=at, change=(before, values))
    return price


def save_cost_rate(wanted: CostRateWanted, *, by: str, reason: str, at: datetime) -> CostRate:
    """A new entry valid from `at`; the entry in force is returned if it is equal."""
    values = {name: value for name, value in asdict(wanted).items() if name != "device"}
    with transaction.atomic():
        entries = CostRate.objects.filter(device=wanted.device, valid_from__lte=at)
        in_force = entries.order_by("-valid_from", "-pk").first()
        before = _values(in_force, values)
        if before == values:
            return in_force
        rate = CostRate.objects.create(device=wanted.device, valid_from=at, **values)
        change = (_plain(before), _plain(values))
        record("save cost rate", wanted.device, by=by, reason=reason, at=at, change=change)
    return rate


def _values(entry: Price | CostRate | None, names: dict) -> dict | None:
    return {name: getattr(entry, name) for name in names} if entry else None


def _plain(values: dict | None) -> dict | None:
    return {name: str(value) for name, value in values.items()} if values else None
