"""Prices of calls as their events are stored: the tier goes by what is stored before them."""

from collections.abc import Sequence
from datetime import datetime

from django.db import connection

from control.metering.instants import instant, microseconds_of
from control.metering.periods import MONTH, Period, period_of
from control.metering.prices import books
from control.metering.prices.rules import (
    Charge,
    Rows,
    Span,
    charge,
    dearest,
    row_of,
    spans_of,
    tiers_in_force,
    tokens_counted,
)
from control.metering.records import Close
from control.metering.rules import Tokens
from control.models import Tenant, Version

_STORED = (
    "SELECT tenant_id, call_id FROM control_usageevent"
    " WHERE kind = 'final' AND (tenant_id, call_id) IN"
    " (SELECT * FROM unnest(%s::bigint[], %s::text[]))"
)
# What was charged before the first tier of its model came is counted once, when its row is made.
_OPEN = (
    "INSERT INTO control_pricevolume (tenant_id, model_id, begins_at, tokens)"
    " SELECT %(tenant)s, %(model)s, %(begins)s, coalesce(sum(billed_input + billed_cached_input"
    " + billed_output + billed_reasoning), 0)"
    " FROM control_usageevent event JOIN control_version version ON version.id = event.version_id"
    " WHERE event.tenant_id = %(tenant)s AND version.model_id = %(model)s"
    " AND event.kind = 'final' AND started_at >= %(begins)s AND started_at < %(ends)s"
    " ON CONFLICT (tenant_id, model_id, begins_at) DO NOTHING"
)
_LOCK = (
    "SELECT tenant_id, model_id, begins_at, tokens FROM control_pricevolume"
    " WHERE (tenant_id, model_id, begins_at) IN"
    " (SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::timestamptz[]))"
    " ORDER BY tenant_id, model_id, begins_at FOR UPDATE"
)
_ADD = (
    "UPDATE control_pricevolume volume SET tokens = new.tokens"
    " FROM unnest(%s::bigint[], %s::bigint[], %s::timestamptz[], %s::bigint[])"
    " new (tenant_id, model_id, begins_at, tokens)"
    " WHERE volume.tenant_id = new.tenant_id AND volume.model_id = new.model_id"
    " AND volume.begins_at = new.begins_at"
)
Volume = tuple[int, int, datetime]  # of a tenant, with a model, in the month that begins then


class Pricing:
    """Of one batch, in the transaction that stores it; `close` writes down the volumes."""

    def __init__(self, closes: Sequence[Close]) -> None:
        versions = {close.version_id for close in closes if close.version_id is not None}
        tenants = {close.tenant_id for close in closes}
        self._books = books.of_versions(versions, tenants) if versions else {}
        self._spans: dict[tuple[int | None, int, str], list[Span]] = {}
        self._volumes: dict[Volume, int] = {}
        self._months: dict[int, list[Period]] = {}
        self._known: set[tuple[int, str]] = set()
        self._models: dict[int, int] = {}
        self._zones: dict[int, str] = {}
        if any(_has_tiers(rows) for mine in self._books.values() for rows in mine.values()):
            self._lock(closes)

    def price(self, close: Close, tokens: Tokens, started_us: int) -> tuple[Charge, int]:
        """What it costs, and what its gateway holds for it: the same, where books have no tiers."""
        tiers = self._tiers(close, started_us)
        if len(tiers) < 2:
            charged = charge(close.outcome, tokens, tiers[0] if tiers else None)
            return charged, charged.amount_pico
        volume = self._volume(close, instant(close.started_at))
        charged = charge(close.outcome, tokens, row_of(tiers, self._volumes[volume]))
        call = (close.tenant_id, close.call_id)
        if call not in self._known:
            self._known.add(call)
            self._volumes[volume] += tokens_counted(close.outcome, tokens, tiers[0])
        most = charge(close.outcome, tokens, dearest(tiers, close.outcome, tokens))
        return charged, most.amount_pico

    def close(self) -> None:
        if not self._volumes:
            return
        keys = sorted(self._volumes)
        columns = [list(column) for column in zip(*keys, strict=True)]
        with connection.cursor() as cursor:
            cursor.execute(_ADD, [*columns, [self._volumes[key] for key in keys]])

    def _tiers(self, close: Close, at_us: int) -> Rows:
        key = (close.version_id, close.tenant_id, close.priority)
        spans = self._spans.get(key)
        if spans is None:
            mine = self._books.get(close.version_id, {})
            own = mine.get(close.tenant_id, ())
            found = spans_of(mine.get(None, ()), own, close.priority)
            spans = self._spans[key] = [_in_microseconds(span) for span in found]
        return tiers_in_force(spans, at_us)

    def _lock(self, closes: Sequence[Close]) -> None:
        """In order, so that two shippers never wait for each other; also what is stored already."""
        tenants = Tenant.objects.filter(pk__in={close.tenant_id for close in closes})
        self._zones = dict(tenants.values_list("pk", "timezone"))
        versions = Version.objects.filter(pk__in=list(self._books))
        self._models = dict(versions.values_list("pk", "model_id"))
        ends: dict[Volume, datetime] = {}
        calls: list[Close] = []
        for close in closes:
            at = instant(close.started_at)
            if len(self._tiers(close, microseconds_of(at))) > 1:
                ends[self._volume(close, at)] = self._month(close.tenant_id, at).ends_at
                calls.append(close)
        if ends:
            self._read(ends, calls)

    def _read(self, ends: dict[Volume, datetime], calls: Sequence[Close]) -> None:
        keys = sorted(ends)
        with connection.cursor() as cursor:
            for tenant_id, model_id, begins_at in keys:
                named = {"tenant": tenant_id, "model": model_id, "begins": begins_at}
                cursor.execute(_OPEN, {**named, "ends": ends[tenant_id, model_id, begins_at]})
            cursor.execute(_LOCK, [list(column) for column in zip(*keys, strict=True)])
            self._volumes = {tuple(row[:3]): row[3] for row in cursor.fetchall()}
            tenants = [close.tenant_id for close in calls]
            cursor.execute(_STORED, [tenants, [close.call_id for close in calls]])
            self._known = set(cursor.fetchall())

    def _volume(self, close: Close, at: datetime) -> Volume:
        begins_at = self._month(close.tenant_id, at).begins_at
        return close.tenant_id, self._models[close.version_id], begins_at

    def _month(self, tenant_id: int, at: datetime) -> Period:
        months = self._months.setdefault(tenant_id, [])
        for month in months:
            if month.begins_at <= at < month.ends_at:
                return month
        months.append(period_of(at, MONTH, self._zones.get(tenant_id, "UTC")))
        return months[-1]


def _in_microseconds(span: Span) -> Span:
    """Instants of calls come as numbers: to make each a datetime takes longer than to price it."""
    ends = None if span.ends is None else microseconds_of(span.ends)
    return span._replace(begins=microseconds_of(span.begins), ends=ends)


def _has_tiers(rows: Rows) -> bool:
    return any(row.tier_from_tokens for row in rows)
