"""Files on a clock: what is due is written to its folder or bucket, whole or not at all."""

from dataclasses import asdict, dataclass
from datetime import datetime

import httpx
from django.db import transaction

from control import checks
from control.metering.exports import buckets, destinations, shares
from control.metering.exports.orders import Order, checked, chunks, name_of
from control.metering.exports.schedule_rules import MONTH, due
from control.metering.exports.wanted import COSTS, FOCUS, SCHEMA, VERSION, ScheduleWanted, problems
from control.metering.invoices import facts, periods
from control.models import ExportSchedule, Tenant
from control.models.audit import record

SCHEDULES_MAX = 100
ERROR_CHARACTERS_MAX = 500


@dataclass(frozen=True)
class ScheduleFacts:
    name: str
    what: str
    format: str
    version: str
    tenant: str
    every: str
    destination: str
    done_until: datetime | None
    tried_at: datetime | None
    wrote: str
    error: str


def schedules() -> list[ScheduleFacts]:
    rows = ExportSchedule.objects.select_related("tenant").order_by("name")[:SCHEDULES_MAX]
    names = ScheduleFacts.__dataclass_fields__.keys() - {"tenant", "version"}
    return [
        ScheduleFacts(
            **{name: getattr(row, name) for name in names},
            version=row.focus_version,
            tenant=row.tenant.name if row.tenant else "",
        )
        for row in rows
    ]


def save_schedule(wanted: ScheduleWanted, *, by: str, reason: str, at: datetime) -> None:
    """New, or changed; it begins with the month that runs."""
    checks.require(problems(wanted))
    checked(Order(wanted.what, wanted.format, f"{at:%Y-%m}", wanted.tenant, "", wanted.version))
    with transaction.atomic():
        count = ExportSchedule.objects.exclude(name=wanted.name).count()
        if count >= SCHEDULES_MAX:
            raise checks.refuse("name", f"there are {SCHEDULES_MAX} already: remove one")
        values = {
            "what": wanted.what,
            "format": wanted.format,
            "focus_version": wanted.version,
            "tenant": Tenant.objects.filter(name=wanted.tenant).first(),
            "every": wanted.every,
            "destination": wanted.destination.rstrip("/"),
        }
        row, is_new = ExportSchedule.objects.get_or_create(
            name=wanted.name, defaults=values | {"begins_at": at}
        )
        if not is_new and all(getattr(row, name) == value for name, value in values.items()):
            return
        ExportSchedule.objects.filter(pk=row.pk).update(**values, error="")
        change = (None, asdict(wanted))
        record("save export schedule", wanted.name, by=by, reason=reason, at=at, change=change)


def remove_schedule(name: str, *, by: str, reason: str, at: datetime) -> None:
    with transaction.atomic():
        count, _ = ExportSchedule.objects.filter(name=name).delete()
        if not count:
            raise checks.unknown("name", f"there is no schedule {name!r}")
        record("remove export schedule", name, by=by, reason=reason, at=at)


def tick(at: datetime) -> int:
    """Write what is due, one file of each schedule; returns how many that were."""
    written = 0
    periods.open_all(at)  # or a month would pass for closed that nobody has begun
    shares.freeze_closed(at)
    for row in ExportSchedule.objects.select_related("tenant").order_by("name"):
        found = due(row.every, row.begins_at, row.done_until, row.tried_at, row.error, at)
        if found is None or (row.every == MONTH and not _is_closed(row, found.month, at)):
            continue
        written += _write(row, found.month, found.until, at)
    return written


def _is_closed(row: ExportSchedule, month: str, at: datetime) -> bool:
    """Of all tenants that have such a month: no file is written that would be another later."""
    if facts.has_open(month, row.tenant.name if row.tenant else ""):
        return False
    if row.what != COSTS or shares.is_frozen(month) or not shares.has_cost(month):
        return True
    why = f"{month}: {shares.why_not_freeze(month, at)}"
    ExportSchedule.objects.filter(pk=row.pk).update(tried_at=at, error=why)
    return False


def _write(row: ExportSchedule, month: str, until: datetime, at: datetime) -> bool:
    tenant = row.tenant.name if row.tenant else ""
    order = Order(row.what, row.format, month, tenant, "", row.focus_version or VERSION)
    told = ExportSchedule.objects.filter(pk=row.pk)
    try:
        wrote = destinations.put(row.destination, name_of(order), chunks(checked(order)))
        if row.what == FOCUS:
            schema = Order(SCHEMA, "json", version=order.version)
            destinations.put(row.destination, name_of(schema), chunks(schema))
    except (OSError, httpx.HTTPError, checks.Refused, buckets.NotTaken) as error:
        told.update(tried_at=at, error=str(error)[:ERROR_CHARACTERS_MAX] or type(error).__name__)
        return False
    told.update(tried_at=at, done_until=until, wrote=wrote, error="")
    return True
