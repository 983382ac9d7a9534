"""Holds the books against engines' counters, opens incidents, and lets people close them."""

import logging
from datetime import datetime, timedelta

from django.db import transaction

from control import checks
from control.metering import watermarks
from control.metering.drift import facts, rules
from control.metering.drift.facts import Span
from control.metering.drift.rules import Verdict
from control.models import Drift, EngineCount
from control.models.audit import record

BY = "drift"
LOOKS_BACK = timedelta(days=3)  # late usage may still explain an incident
KEPT = timedelta(days=400)
PRUNE_ROWS_MAX = 20_000
REASON_CHARACTERS_MAX = 2000

log = logging.getLogger(__name__)


def judge(at: datetime, until: datetime) -> list[Drift]:
    """All spans that end before `until`: up to there every call is stored."""
    found = facts.spans(at - LOOKS_BACK, until)
    return [_judge(span, at) for span in found if span.end_at + facts.EDGE < until]


def judge_hours(at: datetime) -> list[Drift]:
    """Hours that are over, and whose calls are all stored."""
    hour = at.replace(minute=0, second=0, microsecond=0)
    return judge(at, min(hour, watermarks.stored_until(at)))


def _judge(span: Span, at: datetime) -> Drift:
    verdict = rules.judge(span.begin, span.end, facts.whole(span), facts.others(span))
    with transaction.atomic():
        was = Drift.objects.filter(replica=span.replica_id, begin_at=span.begin_at).first()
        row, _ = Drift.objects.update_or_create(
            replica_id=span.replica_id,
            begin_at=span.begin_at,
            defaults=_fields(span, verdict) | {"judged_at": at},
        )
        _tell(row, verdict, was is not None and was.is_incident, at)
    return row


def _fields(span: Span, verdict: Verdict) -> dict:
    least, most = verdict.explained
    return {
        "hour": span.hour,
        "end_at": span.end_at,
        "engine_input_tokens": max(verdict.engine.input, 0),
        "engine_output_tokens": max(verdict.engine.output, 0),
        "input_tokens": verdict.told.input,
        "output_tokens": verdict.told.output,
        "input_tokens_min": least.input,
        "input_tokens_max": most.input,
        "output_tokens_min": least.output,
        "output_tokens_max": most.output,
        "unexplained_input_tokens": verdict.unexplained.input,
        "unexplained_output_tokens": verdict.unexplained.output,
        "attempts": verdict.attempts,
        "cut_attempts": verdict.cut_attempts,
        "is_incident": verdict.is_incident,
        "calls": [one._asdict() for one in verdict.calls] if verdict.is_incident else [],
    }


def _tell(row: Drift, verdict: Verdict, was_incident: bool, at: datetime) -> None:
    """Once when it opens, and once if what came late explains it."""
    if verdict.is_incident == was_incident:
        return
    subject = f"replica {row.replica_id} {row.hour:%Y-%m-%d %H}h"
    if verdict.is_incident:
        why = f"its engine counted {verdict.reason} that no attempt explains"
        log.error("drift: %s: %s", subject, why)
        record("open drift incident", subject, by=BY, reason=why, at=at)
    else:
        record("end drift incident", subject, by=BY, reason="late usage explains it", at=at)


def close_incident(drift_id: int, *, by: str, reason: str, at: datetime) -> None:
    """A person has looked, and says what it was."""
    if not reason.strip():
        raise checks.refuse("reason", "say what it was: the next one will ask")
    with transaction.atomic():
        row = Drift.objects.select_for_update().filter(pk=drift_id, is_incident=True).first()
        if row is None:
            raise checks.unknown("id", f"there is no drift incident {drift_id}")
        if row.closed_at is not None:
            return
        row.closed_at, row.closed_by = at, by
        row.closed_reason = reason[:REASON_CHARACTERS_MAX]
        row.save(update_fields=["closed_at", "closed_by", "closed_reason"])
        record("close drift incident", str(row), by=by, reason=reason, at=at)


def prune(at: datetime) -> int:
    """Readings and verdicts that nobody asks for any more; incidents stay as long."""
    deleted = 0
    for model in (EngineCount, Drift):
        old = model.objects.filter(hour__lt=at - KEPT).values_list("pk", flat=True)
        deleted += model.objects.filter(pk__in=list(old[:PRUNE_ROWS_MAX])).delete()[0]
    return deleted
