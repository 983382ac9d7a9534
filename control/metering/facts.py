"""What was used, charged and spent, as pages, the operators' API and the status command read it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet, Sum

from control import checks
from control.metering import sums
from control.metering.exports import UsageWanted
from control.metering.prices.stored import in_force, versions
from control.metering.rules import amount_text
from control.metering.sums import GROUPS, ROWS_MAX, TIMES, TOKEN_CLASSES
from control.models import RefusalCount, UsageEvent


@dataclass(frozen=True)
class Amount:
    currency: str
    text: str  # exact


@dataclass(frozen=True)
class UsageRow:
    """Calls of one group; `group` has the values in the order that was asked for."""

    group: tuple[str | datetime | None, ...]
    calls: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    delivered_tokens: int
    amounts: tuple[Amount, ...]


@dataclass(frozen=True)
class EventFacts:
    """One call."""

    call_id: str
    started_at: datetime
    ended_at: datetime
    first_token_at: datetime | None
    tenant: str
    project: str
    key: str
    route: str
    model: str
    version: str
    replica_id: int | None
    endpoint: str
    stream: bool
    attempts: int
    outcome: str
    status: int
    finish_reason: str
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    delivered_tokens: int
    tokens_source: str
    currency: str
    amount: str

    @property
    def ttft_seconds(self) -> float | None:
        begun = self.first_token_at
        return (begun - self.started_at).total_seconds() if begun else None

    @property
    def total_seconds(self) -> float:
        return (self.ended_at - self.started_at).total_seconds()


@dataclass(frozen=True)
class PriceRow:
    """Per million tokens, as it was written."""

    model: str
    currency: str
    input: str
    cached_input: str
    output: str
    valid_from: datetime


def usage(wanted: UsageWanted, group_by: Sequence[str] = ("model",)) -> list[UsageRow]:
    """Sums over the calls that started in the time asked for, one row per group, in its order."""
    for name in group_by:
        if name not in GROUPS and name not in TIMES:
            raise checks.refuse("group", f"{name!r} is unknown: use {', '.join((*GROUPS, *TIMES))}")
    return [_usage_row(group, parts) for group, parts in sums.rows(wanted, group_by).items()]


def usage_and_whole(wanted: UsageWanted, group: str) -> tuple[list[UsageRow], UsageRow | None]:
    """By one group, and over all of them: of one reading, so that they agree."""
    found = sums.rows(wanted, (group,))
    rows = [_usage_row(values, parts) for values, parts in found.items()]
    if sum(len(parts) for parts in found.values()) >= ROWS_MAX:  # some were left out
        return rows, next(iter(usage(wanted, ())), None)
    parts = [part for group_parts in found.values() for part in group_parts]
    return rows, _usage_row((), parts) if parts else None


def _usage_row(group: tuple, parts: list[dict]) -> UsageRow:
    """Calls priced in two currencies, or not at all, are one row with an amount for each."""
    amounts: dict[str, int] = defaultdict(int)
    for part in parts:
        amounts[part["currency"]] += int(part["sum_amount"])
    return UsageRow(
        group=group,
        calls=int(sum(part["sum_calls"] for part in parts)),
        **{name: int(sum(part[f"sum_{name}"] for part in parts)) for name in TOKEN_CLASSES},
        amounts=tuple(
            Amount(currency, amount_text(pico))
            for currency, pico in sorted(amounts.items())
            if currency
        ),
    )


def events(wanted: UsageWanted, *, first: int = 0, count: int = 100) -> list[EventFacts]:
    """A span of calls, newest first."""
    names = ("tenant__name", "project__name", "key__name", "version__model__name", "version__name")
    plain = [name for name in EventFacts.__dataclass_fields__ if name not in _RENAMED]
    rows = (
        _events(wanted)
        .order_by("-started_at", "-pk")
        .values(*plain, *names, "amount_pico")[first : first + min(count, ROWS_MAX)]
    )
    return [
        EventFacts(
            **{name: row[name] for name in plain},
            tenant=row["tenant__name"],
            project=row["project__name"],
            key=row["key__name"],
            model=row["version__model__name"] or "",
            version=row["version__name"] or "",
            amount=amount_text(row["amount_pico"]),
        )
        for row in rows
    ]


_RENAMED = frozenset({"tenant", "project", "key", "model", "version", "amount"})


def events_count(wanted: UsageWanted) -> int:
    return sum(row.calls for row in usage(wanted, ()))


def refusals(since: datetime, until: datetime) -> list[tuple[str, str, int]]:
    """(tenant, code, calls) refused before admission; the tenant is empty without a valid key."""
    rows = RefusalCount.objects.filter(minute__gte=since, minute__lt=until)
    sums = rows.values("tenant_name", "code").annotate(calls=Sum("count"))
    found = sums.order_by("tenant_name", "code")[:ROWS_MAX]
    return [(row["tenant_name"], row["code"], row["calls"]) for row in found]


def prices(at: datetime) -> list[PriceRow]:
    """What each model costs everyone without a book of their own, before any tier."""
    found = in_force(versions(tenant=""), at)[:ROWS_MAX]
    return [
        PriceRow(
            model=version.wanted.model,
            currency=version.wanted.currency,
            **{name: version.wanted.rows[0].per_million[name] for name in PRICED},
            valid_from=version.begins,
        )
        for version in found
    ]


PRICED = ("input", "cached_input", "output")


def _events(wanted: UsageWanted) -> QuerySet[UsageEvent]:
    """Calls; what corrects one is no call."""
    found = UsageEvent.objects.filter(
        kind="final", started_at__gte=wanted.since, started_at__lt=wanted.until
    )
    return sums.named(found, wanted)
