"""Hours of cost: made from device time and calls, made anew when either has changed."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import F, Max, Min, Sum

from control.metering.cost import measured
from control.metering.cost.assembly import Cost, Slot, assemble
from control.metering.cost.lines import Line
from control.metering.cost.rules import HOUR, hour_of
from control.models import CostHour, CostHourMade, DeviceHour, UsageHour

LATELY = timedelta(hours=6)
DAY = timedelta(days=1)
LATE_EVENTS = timedelta(days=35)  # a spool that was away so long is still counted
HOURS_AT_ONCE = 24
SLICE = 2000
_VOLUME = (
    *("calls", "input_tokens", "cached_input_tokens", "output_tokens"),
    *("ttft_ms_sum", "ttft_calls", "charged_pico"),
)


class Counted(NamedTuple):
    """What an hour's cost was made of, as far as it tells that it is another now."""

    calls: int
    tokens: int
    charged_pico: int
    device_microseconds: int


NOTHING = Counted(0, 0, 0, 0)


def refresh(at: datetime, *, back: timedelta = LATELY) -> int:
    """Make what is missing or no longer true, the oldest hours first; how many were made."""
    changed = due(at - back, at)
    for hour in changed[:HOURS_AT_ONCE]:
        make(hour, at)
    return min(len(changed), HOURS_AT_ONCE)


def rebuild(since: datetime, until: datetime, at: datetime) -> int:
    """All hours of a time anew, whatever they were: after rates were corrected, say."""
    since = hour_of(since)
    of_before = CostHourMade.objects.filter(hour__gte=since, hour__lt=until)
    hours = set(_counted(since, until)).union(of_before.values_list("hour", flat=True))
    for hour in sorted(hours):
        make(hour, at)
    return len(hours)


def rebuild_all(at: datetime) -> int:
    """Every hour anew, a day at a time; how many of them were made."""
    span = _span()
    if span is None:
        return 0
    since, last = span
    made = 0
    while since <= last:
        made += rebuild(since, min(since + DAY, last + HOUR), at)
        since += DAY
    return made


def _span() -> tuple[datetime, datetime] | None:
    """The first and the last hour that there is anything of."""
    ends = [
        end
        for model in (CostHourMade, DeviceHour, UsageHour)
        for end in model.objects.aggregate(first=Min("hour"), last=Max("hour")).values()
        if end is not None
    ]
    return (min(ends), max(ends)) if ends else None


def due(since: datetime, until: datetime) -> list[datetime]:
    """Hours whose calls or device time are not those that their cost was made of.

    A call that ran over the full hour was at work in the next one too.
    """
    since = hour_of(since)
    seen = _counted(since, until)
    rows = CostHourMade.objects.filter(hour__gte=since, hour__lt=until)
    made = {
        hour: Counted(*map(int, counts))
        for hour, *counts in rows.values_list("hour", *Counted._fields)
    }
    changed = {hour for hour, counts in seen.items() if made.get(hour) != counts}
    return sorted(changed | {hour + HOUR for hour in changed} & set(seen))


def make(hour: datetime, at: datetime) -> None:
    """Replace an hour's rows, whole or not at all; two makers take turns."""
    end = hour + HOUR
    counts = _counted(hour, end).get(hour, NOTHING)._asdict()
    with transaction.atomic():
        CostHourMade.objects.update_or_create(hour=hour, defaults={**counts, "made_at": at})
        world = measured.world(hour)
        rows = [
            _row(hour, slot, cost, world.policies[slot.pool].idle)
            for slot, cost in assemble(world).items()
        ]
        CostHour.objects.filter(hour=hour).delete()
        CostHour.objects.bulk_create(_with_volumes(hour, rows), batch_size=SLICE)


def _with_volumes(hour: datetime, rows: list[CostHour]) -> list[CostHour]:
    """Calls and tokens of those that started in it, beside the cost of whoever made them."""
    found = measured.query(measured.VOLUMES, hour)
    replicas = measured.replicas({row[0] for row in found if row[0] is not None})
    open_rows = {_user(row): row for row in rows if row.line in (Line.BUSY, Line.FAILURE)}
    sums: dict[tuple, list[int]] = defaultdict(lambda: [0] * len(_VOLUME))
    for replica_id, told_version, tenant_id, project_id, failed, currency, *values in found:
        deployment_id, version_id = replicas.get(replica_id, (None, told_version))
        line = Line.FAILURE if failed else Line.BUSY
        who = (None, None) if failed else (tenant_id, project_id)
        key = ((line, deployment_id, version_id, *who), currency)
        sums[key] = [one + int(other) for one, other in zip(sums[key], values, strict=True)]
    pools = {_user(row)[1:3]: row.pool for row in rows}
    more = []
    for (user, currency), values in sorted(sums.items(), key=str):
        row = open_rows.pop(user, None)
        if row is None:
            line, deployment_id, version_id, tenant_id, project_id = user
            row = CostHour(hour=hour, line=line, deployment_id=deployment_id)
            row.version_id, row.tenant_id, row.project_id = version_id, tenant_id, project_id
            row.pool = pools.get((deployment_id, version_id), "")
            more.append(row)
        row.price_currency = currency
        for name, value in zip(_VOLUME, values, strict=True):
            setattr(row, name, value)
    return rows + more


def _user(row: CostHour) -> tuple:
    return (row.line, row.deployment_id, row.version_id, row.tenant_id, row.project_id)


def _row(hour: datetime, slot: Slot, cost: Cost, idle: str) -> CostHour:
    return CostHour(
        hour=hour,
        **slot._asdict(),
        device_microseconds=cost.microseconds,
        assumed_microseconds=cost.assumed,
        hardware_pico=cost.hardware,
        power_pico=cost.power,
        engineering_pico=cost.engineering,
        spread_pico=cost.spread,
        idle_policy=idle,
    )


def _counted(since: datetime, until: datetime) -> dict[datetime, Counted]:
    """Of devices that were there the time, seen or not: it grows with whatever is on a line."""
    time = {
        hour: sum(present.microseconds for present in devices.values())
        for hour, devices in measured.presence(since, until).items()
    }
    rows = UsageHour.objects.filter(hour__gte=since, hour__lt=until).values_list("hour")
    sums = rows.annotate(
        Sum("calls"), tokens=Sum(F("input_tokens") + F("output_tokens")), pico=Sum("amount_pico")
    ).order_by("hour")
    calls = {hour: tuple(map(int, counts)) for hour, *counts in sums}
    return {
        hour: Counted(*calls.get(hour, NOTHING[:3]), time.get(hour, 0))
        for hour in set(time) | set(calls)
    }
