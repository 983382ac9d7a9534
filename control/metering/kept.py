"""Calls that were kept to be looked at, as people see them: how each went, and what was decided."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from control.checks import unknown
from control.models import CallTrace, Key
from control.telemetry.traces import STAGES

ROWS_MAX = 200
REASONS = ("failed", "slow", "retried", "refused", "sampled")


@dataclass(frozen=True)
class Decision:
    """`figures` are of that moment, as JSON."""

    name: str
    figures: str


@dataclass(frozen=True)
class Stage:
    """When it ended, in milliseconds from the call's arrival."""

    name: str
    ended_ms: float


@dataclass(frozen=True)
class KeptWanted:
    """Empty is any. `code`: of the refusal or failure."""

    kept: str = ""
    code: str = ""
    route: str = ""


@dataclass(frozen=True)
class Kept:
    call_id: str
    tenant: str  # empty without a valid key
    key: str
    route: str  # empty where it was not known
    priority: str
    replica_id: int | None
    kept: str  # why
    outcome: str
    status: int
    code: str
    started_at: datetime
    seconds: float
    flags: list[str]
    link: str  # the caller's own trace
    stages: list[Stage] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    tries: list[Decision] = field(default_factory=list)


def newest(wanted: KeptWanted) -> list[Kept]:
    """ROWS_MAX at most."""
    named = {"kept": wanted.kept, "error": wanted.code, "route": wanted.route}
    rows = CallTrace.objects.filter(**{name: value for name, value in named.items() if value})
    return _told(rows.order_by("-started_at", "-id")[:ROWS_MAX])


def one(call_id: str) -> Kept:
    """By its id, with or without its beginning, as an answer's `x-request-id` has it."""
    name = call_id if call_id.startswith("req_") else f"req_{call_id}"
    found = _told(CallTrace.objects.filter(call_id=name))
    if not found:
        raise unknown("call", f"nothing was kept of the call {name[:40]}")
    return found[0]


def _told(rows: Iterable[CallTrace]) -> list[Kept]:
    rows = list(rows)
    keys = Key.objects.filter(pk__in={row.key_id for row in rows}).select_related("tenant")
    names = {key.pk: (key.tenant.name, key.name) for key in keys}
    return [_kept(row, *names.get(row.key_id, ("", ""))) for row in rows]


def _kept(row: CallTrace, tenant: str, key: str) -> Kept:
    return Kept(
        call_id=row.call_id,
        tenant=tenant,
        key=key,
        route=row.route,
        priority=row.priority,
        replica_id=row.replica_id,
        kept=row.kept,
        outcome=row.outcome,
        status=row.status,
        code=row.error,
        started_at=row.started_at,
        seconds=(row.ended_at - row.started_at).total_seconds(),
        flags=row.flags,
        link=row.link,
        stages=[Stage(name, row.stages[name] / 1000) for name in STAGES if name in row.stages],
        decisions=[_decision(one, "decision") for one in row.decisions],
        tries=[_decision(one, "why") for one in row.tries],
    )


def _decision(record: dict[str, Any], name: str) -> Decision:
    figures = {key: value for key, value in record.items() if key != name}
    return Decision(str(record.get(name, "")), msgspec.json.encode(figures).decode())
