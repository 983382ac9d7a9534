"""Attempts that no usage event tells whole: rows of their own, written once, never charged."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import DataError, IntegrityError, transaction

from control.metering.backlog import Batch
from control.metering.instants import instant
from control.metering.records import Close
from control.models import Attempt
from control.states import Outcome, Purpose, TokensSource
from control.telemetry.traces import Try

KEPT = timedelta(days=100)
ROWS_MAX = 5_000_000
PRUNE_ROWS_MAX = 50_000
CONTINUED = "continued"

log = logging.getLogger(__name__)


def store(batch: Batch) -> int:
    """In the transaction of the batch. Usage does not wait for what no table takes."""
    rows = [row for close in batch.rich for row in attempts_of(close)]
    return write(rows) if rows else 0


def write(rows: list[Attempt]) -> int:
    """Twice is as good as once: an attempt is known by its call and number."""
    try:
        with transaction.atomic():
            Attempt.objects.bulk_create(rows, batch_size=500, ignore_conflicts=True)
    except (DataError, IntegrityError, ValueError) as error:
        log.error("%d attempts could not be stored: %s", len(rows), type(error).__name__)
        return 0
    return len(rows)


def attempts_of(close: Close) -> list[Attempt]:
    """None for most: where one attempt did what the event says, the event is its row."""
    untold = close.untold and close.outcome != Outcome.REJECTED
    if not (close.tries or close.choices > 1 or close.cut or untold):
        return []
    rows, prompt, made, begin = [], close.input_tokens or close.untold, 0, close.started_at
    for number, given_up in enumerate(close.tries, 1):
        row = _given_up(close, given_up, number, prompt)
        if given_up.why == CONTINUED and not made and close.first_token_at is not None:
            row.first_token_at = instant(close.first_token_at)
        rows.append(row)
        if given_up.why == CONTINUED:  # the next engine gets the prompt and the answer so far
            made += row.output_tokens
            prompt = given_up.input_tokens
        begin = row.ended_at.timestamp()
    if close.attempts > len(close.tries) and close.replica_id is not None:
        rows.append(_last(close, len(rows) + 1, (prompt, made), begin))
    return rows


def _given_up(close: Close, given_up: Try, number: int, prompt: int) -> Attempt:
    was_continued = given_up.why == CONTINUED
    told_in = prompt if was_continued else given_up.input_tokens
    told_out = given_up.input_tokens - prompt if was_continued else given_up.output_tokens
    source = given_up.source or TokensSource.ESTIMATED
    if not told_in:  # it did not come to tell, and may have read all the same
        told_in, source = prompt, TokensSource.ESTIMATED
    begun_at = close.started_at + given_up.begun_us / 1_000_000
    return Attempt(
        call_id=close.call_id,
        number=number,
        replica_id=given_up.replica_id,
        purpose=Purpose.CONTINUATION if was_continued else Purpose.RETRY,
        input_tokens=told_in * close.choices,
        output_tokens=max(told_out, 0),
        tokens_source=source,
        cut=True,
        outcome=given_up.why[:64],
        started_at=instant(begun_at),
        first_token_at=None,
        ended_at=instant(max(close.started_at + given_up.until_us / 1_000_000, begun_at)),
    )


def _last(close: Close, number: int, so_far: tuple[int, int], begin: float) -> Attempt:
    prompt, made = so_far
    first_at = close.first_token_at if close.stream and not made else None
    source = close.tokens_source if close.input_tokens else TokensSource.ESTIMATED
    worked = close.outcome != Outcome.REJECTED
    return Attempt(
        call_id=close.call_id,
        number=number,
        replica_id=close.replica_id,
        purpose=Purpose.CALL,
        input_tokens=prompt * close.choices if worked else 0,
        output_tokens=max(close.output_tokens - made, 0),
        tokens_source=source if worked else TokensSource.ENGINE,
        cut=close.cut,
        outcome=close.outcome,
        started_at=instant(begin),
        first_token_at=None if first_at is None else instant(first_at),
        ended_at=instant(max(close.ended_at, begin)),
    )


def prune(at: datetime) -> int:
    """Delete what is old, and the oldest of too many; a bounded number at once."""
    old = Attempt.objects.filter(started_at__lt=at - KEPT).order_by("started_at")
    deleted = _delete(old.values_list("pk", flat=True)[:PRUNE_ROWS_MAX])
    newest = Attempt.objects.order_by("-pk").values_list("pk", flat=True)
    return deleted + _delete(newest[ROWS_MAX : ROWS_MAX + PRUNE_ROWS_MAX])


def _delete(ids: Iterable[int]) -> int:
    return Attempt.objects.filter(pk__in=list(ids)).delete()[0]
