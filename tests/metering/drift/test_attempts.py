"""What an engine did that no usage event tells whole has a row of its own, once."""

from datetime import timedelta

import pytest

from control.metering.contents import content_hash
from control.metering.drift import attempts
from control.metering.drift.attempts import attempts_of
from control.metering.ingest import ship
from control.models import Attempt, Posting, UsageEvent
from control.telemetry.traces import Try
from tests.metering.conftest import AT, spool

NAMES = ("number", "replica_id", "purpose", "input_tokens", "output_tokens", "tokens_source", "cut")


def rows(close) -> list[tuple]:
    return [tuple(getattr(row, name) for name in NAMES) for row in attempts_of(close)]


def gave_up(replica: int, why: str, tokens=(0, 0), *, until_us=500_000, source="engine") -> Try:
    return Try(replica, why, until_us, *tokens, until_us - 100_000, source)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, []),
        ({"outcome": "client_closed"}, []),  # the event says what was seen of it
        ({"outcome": "rejected", "input_tokens": 0, "output_tokens": 0, "untold": 90}, []),
        # An engine reads the prompt once for each of the answers.
        ({"choices": 3}, [(1, 7, "call", 300, 50, "engine", False)]),
        # The gateway ended it, at a stop word.
        ({"cut": True}, [(1, 7, "call", 100, 50, "engine", True)]),
        # Its engine died: whether it had read the prompt it did not tell.
        (
            {"outcome": "upstream_error", "input_tokens": 0, "output_tokens": 0, "untold": 90},
            [(1, 7, "call", 90, 0, "estimated", False)],
        ),
        (
            {"attempts": 2, "tries": (gave_up(3, "upstream_error"),)},
            [(1, 3, "retry", 100, 0, "estimated", True), (2, 7, "call", 100, 50, "engine", False)],
        ),
        (
            {"attempts": 2, "tries": (gave_up(3, "requeued", (90, 4), source="estimated"),)},
            [(1, 3, "retry", 90, 4, "estimated", True), (2, 7, "call", 100, 50, "engine", False)],
        ),
        # Others went on, with the prompt and the answer so far as their prompt.
        (
            {
                "attempts": 3,
                "tries": (gave_up(3, "continued", (110, 0)), gave_up(4, "continued", (130, 0))),
            },
            [
                (1, 3, "continuation", 100, 10, "engine", True),
                (2, 4, "continuation", 110, 20, "engine", True),
                (3, 7, "call", 130, 20, "engine", False),
            ],
        ),
        # It left its only engine, and got no other.
        (
            {
                "attempts": 1,
                "tries": (gave_up(7, "requeued", (90, 0), source="estimated"),),
                "outcome": "deadline",
                "input_tokens": 0,
                "output_tokens": 0,
            },
            [(1, 7, "retry", 90, 0, "estimated", True)],
        ),
    ],
)
@pytest.mark.django_db
def test_rows_are_made_only_where_the_event_is_not_the_row(house, changes, wanted):
    assert rows(house.close("req_1", **changes)) == wanted


def test_their_tokens_are_those_that_the_engines_made(house):
    """Two prefills and one answer: the second prefill is nobody's but the platform's."""
    tries = (gave_up(3, "continued", (110, 0)),)
    close = house.close("req_1", attempts=2, tries=tries)
    made = attempts_of(close)
    assert sum(row.output_tokens for row in made) == close.output_tokens
    assert sum(row.input_tokens for row in made) == close.input_tokens + tries[0].input_tokens
    assert made[0].first_token_at.timestamp() == close.first_token_at
    assert made[0].ended_at == made[1].started_at


def test_they_are_stored_once_with_the_event_and_never_charged(house, tmp_path):
    tries = (gave_up(3, "upstream_error"),)
    close = house.close("req_1", attempts=2, tries=tries)
    writer = spool(tmp_path, house.open("req_1"), close, close=False)
    ship(tmp_path, {"gw-1"}, AT)
    (tmp_path / "gw-1" / "shipped.json").unlink()  # as if a crash had lost it
    ship(tmp_path, {"gw-1"}, AT)
    assert Attempt.objects.count() == 2
    assert UsageEvent.objects.get().input_tokens == 100
    assert Posting.objects.filter(amount_pico__gt=0).count() <= 1
    writer.close()


def test_what_no_table_takes_holds_up_no_usage(house, tmp_path):
    tries = (gave_up(3, "bad\0"),)
    spool(tmp_path, house.open("req_1"), house.close("req_1", attempts=2, tries=tries))
    ship(tmp_path, set(), AT)
    assert UsageEvent.objects.count() == 1
    assert not Attempt.objects.exists()


def test_an_older_release_takes_the_same_end_of_a_call_for_the_same(house):
    plain = house.close("req_1")
    told = house.close("req_1", choices=2, cut=True, untold=9, tries=(gave_up(3, "x"),))
    assert content_hash(plain) == content_hash(told)


def test_old_ones_go(house):
    attempts.write(attempts_of(house.close("req_1", choices=2)))
    assert attempts.prune(AT + timedelta(days=99)) == 0
    assert attempts.prune(AT + timedelta(days=101)) == 1
