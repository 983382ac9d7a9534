"""Spans between readings of engines' counters, and the work that was done in them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Sum

from control.metering.drift import rules
from control.metering.drift.rules import Reading, Sums, Tokens, Work
from control.models import Attempt, Drift, EngineCount, UsageEvent
from control.states import Purpose

EDGE = timedelta(seconds=rules.EDGE_SECONDS)
TAIL = timedelta(seconds=10)  # for which an engine may go on with a call that is over
LIFE = timedelta(minutes=30)  # no call is longer
SPANS_MAX = 2000  # judged in one turn
UNTOLD = datetime.fromtimestamp(0, UTC)
FINAL = "final"


@dataclass(frozen=True)
class Span:
    """Of one launch, from the reading before to the last one of an hour."""

    replica_id: int
    hour: datetime
    begin_at: datetime
    end_at: datetime
    begin: Reading
    end: Reading
    edge: timedelta = EDGE  # none where its launch begins: no call was there before


def spans(since: datetime, until: datetime) -> list[Span]:
    """Of hours that begin in between: those not judged yet, and those that are open incidents."""
    judged = Drift.objects.filter(replica=OuterRef("replica"), end_at=OuterRef("read_at"))
    settled = judged.exclude(is_incident=True, closed_at=None)
    rows = EngineCount.objects.filter(~Exists(settled), hour__gte=since, hour__lt=until)
    # One that was read after its hour is where counting begins: no span ends with it.
    rows = rows.filter(read_at__lte=F("hour") + timedelta(hours=1))
    rows = rows.annotate(created_at=F("replica__created_at")).order_by("hour", "replica_id")
    return [_span(row) for row in rows[:SPANS_MAX]]


def _span(row: EngineCount) -> Span:
    earlier = EngineCount.objects.filter(
        replica=row.replica_id, counted_from=row.counted_from, hour__lt=row.hour
    )
    before = earlier.order_by("-hour").first()
    until = row.read_at, _reading(row)
    if before:
        begun = before.read_at, _reading(before)
        return Span(row.replica_id, row.hour, begun[0], until[0], begun[1], until[1])
    # An engine that does not say since when it counts began with its launch.
    at = row.created_at if row.counted_from == UNTOLD else row.counted_from
    begin = Reading(at.timestamp())
    return Span(row.replica_id, row.hour, at, until[0], begin, until[1], timedelta(0))


def _reading(row: EngineCount) -> Reading:
    counted = row.prompt_tokens, row.generation_tokens, row.token_seconds_sum, row.token_gaps
    return Reading(row.read_at.timestamp(), *counted)


def whole(span: Span) -> Sums:
    """What surely lies in the span: added up where it is stored."""
    total, count = Tokens(), 0
    for rows in (_events(span).filter(_inside(span)), _attempts(span).filter(_uncut(span))):
        found = rows.aggregate(Sum("input_tokens"), Sum("output_tokens"), count=Count("*"))
        count += found["count"]
        total = Tokens(
            total.input + (found["input_tokens__sum"] or 0),
            total.output + (found["output_tokens__sum"] or 0),
        )
    return Sums(total, count)


def others(span: Span) -> Iterator[Work]:
    """What was cut, or runs over an edge."""
    events = _events(span).filter(~_inside(span))
    names = ("call_id", "started_at", "first_token_at", "ended_at", "input_tokens")
    names = (*names, "output_tokens", "tokens_source", "outcome")
    for *values, streams in events.values_list(*names, "stream").iterator():
        yield _work(values, 1, Purpose.CALL, streams=streams)
    attempts = _attempts(span).filter(~_uncut(span))
    for *values, number, purpose, cut in attempts.values_list(
        *names, "number", "purpose", "cut"
    ).iterator():
        yield _work(values, number, purpose, cut=cut)


def _work(
    values: list, number: int, purpose: str, *, streams: bool = True, cut: bool = False
) -> Work:
    call_id, started_at, first_at, ended_at, tokens_in, tokens_out, source, outcome = values
    return Work(
        call_id,
        number,
        purpose,
        started_at.timestamp(),
        first_at.timestamp() if first_at and streams else None,
        ended_at.timestamp(),
        Tokens(tokens_in, tokens_out),
        source,
        outcome,
        cut,
    )


def _events(span: Span) -> QuerySet:
    """Calls of one attempt are its row; those of more have others, or one that says otherwise."""
    told = Attempt.objects.filter(call_id=OuterRef("call_id"), purpose=Purpose.CALL)
    rows = UsageEvent.objects.filter(_near(span), ~Exists(told), kind=FINAL)
    return rows.filter(replica_id=span.replica_id)


def _attempts(span: Span) -> QuerySet:
    return Attempt.objects.filter(_near(span), replica_id=span.replica_id)


def _near(span: Span) -> Q:
    begun = Q(started_at__gte=span.begin_at - LIFE, started_at__lte=span.end_at + EDGE)
    return begun & Q(ended_at__gte=span.begin_at - TAIL)


def _inside(span: Span) -> Q:
    times = Q(started_at__gte=span.begin_at + span.edge, ended_at__lte=span.end_at - EDGE)
    return times & Q(outcome__in=rules.WHOLE)


def _uncut(span: Span) -> Q:
    return _inside(span) & Q(cut=False)
