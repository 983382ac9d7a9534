"""A tenant's own usage, by the days of its calendar: the figures that its invoice adds up."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from zoneinfo import ZoneInfo

from django.db.models import Case, Count, F, Q, QuerySet, Sum, When
from django.db.models.functions import TruncDate

from control.metering.own.rules import UsageAsked
from control.metering.rules import amount_text
from control.models import Key, Tenant, UsageEvent, UsageHour

GROUPS_MAX = 10_000
COUNTS = (
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_tokens",
)
# What a price was asked for, as invoices have it: of an interrupted call it may be less than was
# used. What had no price is on no invoice, and shown as it was used.
_BILLED = (
    F("billed_input") + F("billed_cached_input"),
    F("billed_cached_input"),
    F("billed_output") + F("billed_reasoning"),
    F("billed_reasoning"),
)
_COUNTED = {
    f"sum_{name}": Sum(Case(When(price=None, then=F(name)), default=billed))
    for name, billed in zip(COUNTS, _BILLED, strict=True)
}
_NAMES = {
    "model": F("version__model__name"),
    "key": F("key__name"),
    "project": F("project__name"),
}


@dataclass(frozen=True)
class OwnRow:
    """Calls that began in a group; `group` has its values as they were asked for."""

    group: tuple[str | date | None, ...]
    calls: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    amounts: tuple[tuple[str, str], ...]  # (currency, exact amount)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True)
class OwnUsage:
    rows: tuple[OwnRow, ...]
    total: OwnRow
    has_more: bool


@dataclass(frozen=True)
class KeyScope:
    """Whose usage a key may read: that of its project."""

    tenant_id: int
    tenant: str
    project_id: int
    project: str
    timezone: str


def scope_of_key(key_id: int) -> KeyScope | None:
    """None, if it was never there."""
    key = Key.objects.filter(pk=key_id).select_related("tenant", "project").first()
    return key and KeyScope(
        key.tenant_id, key.tenant.name, key.project_id, key.project.name, key.tenant.timezone
    )


def timezone_of(tenant: str) -> str:
    return Tenant.objects.values_list("timezone", flat=True).get(name=tenant)


def usage(asked: UsageAsked, tenant: str, project_id: int | None = None) -> OwnUsage:
    """Of one tenant, or one project of it. Days come in order, other groups by name."""
    rows = _read(asked, tenant, project_id)
    groups: dict[tuple, list[dict]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[f"by_{name}"] for name in asked.group_by)].append(row)
    found = tuple(_row(group, parts) for group, parts in groups.items())
    is_whole = len(rows) < GROUPS_MAX
    all_rows = rows if is_whole else _read(replace(asked, group_by=()), tenant, project_id)
    has_more = len(found) > asked.limit or not is_whole
    return OwnUsage(found[: asked.limit], _row((), all_rows), has_more)


def names(tenant: str) -> tuple[list[str], list[str]]:
    """Its keys and projects, for a choice."""
    keys = Key.objects.filter(tenant__name=tenant).order_by("name").distinct()
    projects = Tenant.objects.get(name=tenant).projects.order_by("name")
    return (
        list(keys.values_list("name", flat=True)[:GROUPS_MAX]),
        list(projects.values_list("name", flat=True)[:GROUPS_MAX]),
    )


def _read(asked: UsageAsked, tenant: str, project_id: int | None) -> Sequence[dict]:
    names = [f"by_{name}" for name in asked.group_by]
    if asked.is_in_whole_hours:
        rows, at, calls = UsageHour.objects.all(), "hour", Sum("calls")
    else:  # hourly sums begin and end within its days
        rows, at = UsageEvent.objects.all(), "started_at"
        calls = Count("pk", filter=Q(kind="final"))
    day = TruncDate(at, tzinfo=ZoneInfo(asked.timezone))
    groups = {f"by_{name}": _NAMES.get(name, day) for name in asked.group_by}
    found = _of(rows, at, asked, tenant, project_id).annotate(**groups)
    summed = found.values(*names, "currency").annotate(
        sum_calls=calls, sum_amount=Sum("amount_pico"), **_COUNTED
    )
    return list(summed.order_by(*names, "currency")[:GROUPS_MAX])


def _of(
    rows: QuerySet, at: str, asked: UsageAsked, tenant: str, project_id: int | None
) -> QuerySet:
    named = {
        "version__model__name": asked.model,
        "key__name": asked.key,
        "project__name": asked.project,
        "project_id": project_id,
    }
    return rows.filter(
        tenant__name=tenant,
        **{f"{at}__gte": asked.since, f"{at}__lt": asked.until},
        **{name: value for name, value in named.items() if value},
    )


def _row(group: tuple, parts: Sequence[dict]) -> OwnRow:
    amounts: dict[str, int] = defaultdict(int)
    for part in parts:
        if part["currency"]:
            amounts[part["currency"]] += int(part["sum_amount"])
    return OwnRow(
        group=group,
        calls=sum(part["sum_calls"] for part in parts),
        **{name: int(sum(part[f"sum_{name}"] for part in parts)) for name in COUNTS},
        amounts=tuple((name, amount_text(pico)) for name, pico in sorted(amounts.items())),
    )
