"""Sums of usage for pages: whole hours from roll-ups, what is left at the edges from events."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import TruncDay, TruncHour

from control.metering.exports import UsageWanted
from control.models import UsageEvent, UsageHour

GROUPS = {
    "model": F("version__model__name"),
    "version": F("version__name"),
    "tenant": F("tenant__name"),
    "project": F("project__name"),
    "key": F("key__name"),
    "route": F("route"),
    "outcome": F("outcome"),
    "priority": F("priority"),
}
TIMES = {"day": TruncDay, "hour": TruncHour}
TOKEN_CLASSES = (
    *("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"),
    "delivered_tokens",
)
ROWS_MAX = 10_000
HOUR = timedelta(hours=1)


def rows(wanted: UsageWanted, group_by: Sequence[str]) -> dict[tuple, list[dict]]:
    """By the values that were asked for, in their order: one part for each currency, or more."""
    found: dict[tuple, list[dict]] = defaultdict(list)
    first, last = whole_hours(wanted.since, wanted.until)
    hours = UsageHour.objects.filter(hour__gte=first, hour__lt=last)
    parts = [_summed(named(hours, wanted), "hour", Sum("calls"), group_by)] if first < last else []
    for since, until in _edges(wanted, first, last):
        events = UsageEvent.objects.filter(started_at__gte=since, started_at__lt=until)
        final = Count("pk", filter=Q(kind="final"))
        parts.append(_summed(named(events, wanted), "started_at", final, group_by))
    for part in parts:
        for row in part:
            found[tuple(row[f"by_{name}"] for name in group_by)].append(row)
    if len(parts) > 1:
        return dict(sorted(found.items(), key=lambda item: _in_order(item[0]))[:ROWS_MAX])
    return found


def whole_hours(since: datetime, until: datetime) -> tuple[datetime, datetime]:
    """The first instant of those in between, and the one after their last."""
    first, last = _hour_of(since), _hour_of(until)
    return (first if first == since else first + HOUR), last


def named(rows: QuerySet, wanted: UsageWanted) -> QuerySet:
    names = {
        "tenant__name": wanted.tenant,
        "key__name": wanted.key,
        "version__model__name": wanted.model,
        "route": wanted.route,
    }
    return rows.filter(**{name: value for name, value in names.items() if value})


def _edges(
    wanted: UsageWanted, first: datetime, last: datetime
) -> Iterator[tuple[datetime, datetime]]:
    if first >= last:
        yield wanted.since, wanted.until
        return
    for since, until in ((wanted.since, first), (last, wanted.until)):
        if since < until:
            yield since, until


def _summed(found: QuerySet, at: str, calls: Sum | Count, group_by: Sequence[str]) -> QuerySet:
    names = [f"by_{name}" for name in group_by]
    expressions = {
        f"by_{name}": TIMES[name](at, tzinfo=UTC) if name in TIMES else GROUPS[name]
        for name in group_by
    }
    return (
        found.annotate(**expressions)
        .values(*names, "currency")
        .annotate(
            sum_calls=calls,
            sum_amount=Sum("amount_pico"),
            **{f"sum_{name}": Sum(name) for name in TOKEN_CLASSES},
        )
        .order_by(*names, "currency")[:ROWS_MAX]
    )


def _in_order(group: tuple) -> list[tuple]:
    """As PostgreSQL has it: nothing comes last."""
    return [(value is None, value if value is not None else "") for value in group]


def _hour_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
