"""Traces out of the spool into their table, and out of it again when they are old."""

import logging
from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime, timedelta

import msgspec
from django.db import DataError, IntegrityError, transaction

from control.metering.backlog import Batch
from control.metering.instants import instant
from control.metering.records import Close, Refused
from control.models import CallTrace
from control.telemetry.spans import KeptCall

KEPT = timedelta(days=7)
ROWS_MAX = 500_000
PRUNE_ROWS_MAX = 20_000
REFUSED = "refused"
_ERROR_MAX = 64
_NAMES = tuple(field.name for field in fields(KeptCall))

log = logging.getLogger(__name__)


def store(batch: Batch) -> int:
    """Usage does not wait for them: what no table takes is left out. Twice is as good as once."""
    rows = [_row(close) for close in batch.rich if close.trace]
    rows += [_refused(refused) for _, _, refused in batch.refused if refused.trace]
    if not rows:
        return 0
    try:
        with transaction.atomic():
            CallTrace.objects.bulk_create(rows, batch_size=500, ignore_conflicts=True)
    except (DataError, IntegrityError, ValueError) as error:
        log.error("%d traces could not be stored: %s", len(rows), type(error).__name__)
        return 0
    return len(rows)


def kept_calls(batch: Batch) -> list[KeptCall]:
    """As a collector is told them."""
    calls = [_kept(close) for close in batch.rich if close.trace]
    return calls + [_kept(refused) for _, _, refused in batch.refused if refused.trace]


def _kept(record: Close | Refused) -> KeptCall:
    return KeptCall(**{n: getattr(record, n) for n in _NAMES if hasattr(record, n)})


def prune(at: datetime) -> int:
    """Delete what is old, and the oldest of too many; a bounded number at once."""
    old = CallTrace.objects.filter(started_at__lt=at - KEPT)
    deleted = _delete(old.values_list("pk", flat=True)[:PRUNE_ROWS_MAX])
    newest = CallTrace.objects.order_by("-pk").values_list("pk", flat=True)
    return deleted + _delete(newest[ROWS_MAX : ROWS_MAX + PRUNE_ROWS_MAX])


def _delete(ids: Iterable[int]) -> int:
    return CallTrace.objects.filter(pk__in=list(ids)).delete()[0]


def _row(close: Close) -> CallTrace:
    row = _common(close)
    row.replica_id, row.priority, row.outcome = close.replica_id, close.priority, close.outcome
    row.tries = msgspec.to_builtins(close.tries)
    row.flags = list(close.flags)
    return row


def _refused(refused: Refused) -> CallTrace:
    row = _common(refused)
    row.outcome = REFUSED
    return row


def _common(record: Close | Refused) -> CallTrace:
    trace = record.trace
    return CallTrace(
        call_id=record.call_id,
        key_id=record.key_id or 0,
        route=record.route,
        status=record.status,
        started_at=instant(record.started_at),
        ended_at=instant(record.ended_at),
        kept=trace.kept,
        stages=trace.stages,
        decisions=trace.decisions,
        error=trace.error[:_ERROR_MAX],
        link=trace.link,
    )
