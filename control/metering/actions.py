"""New cost rates: entries valid from an instant on; the past keeps its own."""

from dataclasses import asdict
from datetime import datetime

from django.db import transaction

from control.metering.rules import CostRateWanted
from control.models import CostRate
from control.models.audit import record


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


def _values(entry: CostRate | None, names: dict) -> dict | None:
    return {name: getattr(entry, name) for name in names} if entry else None


def _plain(values: dict | None) -> dict | None:
    return {name: str(value) for name, value in values.items()} if values else None
