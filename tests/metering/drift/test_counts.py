"""A node writes down what engines counted last: each hour, at each restart, and at the end."""

from datetime import UTC, datetime, timedelta

import pytest

from control.metering.drift.counts import Counts
from control.models import EngineCount
from engines.spec import EngineLoad
from tests.fleet.rows import a_deployment, a_replica

AT = datetime(2026, 11, 20, 12, 59, 50, tzinfo=UTC)
BEGAN = AT - timedelta(hours=2)

pytestmark = pytest.mark.django_db


@pytest.fixture
def replica():
    return a_replica(a_deployment(), at=AT)


def load(prompt: int, made: int = 0, *, began: datetime = BEGAN) -> EngineLoad:
    return EngineLoad(
        prompt_tokens=prompt, generation_tokens=made, started_at_seconds=began.timestamp()
    )


def after(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


def written() -> list[tuple]:
    rows = EngineCount.objects.order_by("read_at")
    return [((row.read_at - AT).total_seconds(), row.prompt_tokens) for row in rows]


def test_an_hour_keeps_the_last_reading_that_was_in_it(replica):
    counts = Counts()
    for second in range(14):
        counts.note(replica.pk, load(100 + second), after(second))
    assert written() == [(9, 109), (10, 110)]
    assert [row.hour.hour for row in EngineCount.objects.order_by("hour")] == [12, 13]


def test_an_engine_that_stands_still_is_written_once_more_and_no_more(
    replica, django_assert_num_queries
):
    counts = Counts()
    counts.note(replica.pk, load(100), AT - timedelta(minutes=10))
    counts.note(replica.pk, load(100), AT - timedelta(minutes=9))
    with django_assert_num_queries(0):
        counts.note(replica.pk, load(100), AT - timedelta(minutes=8))
    assert written() == [(-540, 100)]
    counts.note(replica.pk, load(101), AT - timedelta(minutes=7))
    assert written() == [(-420, 101)]


def test_counters_that_began_anew_are_another_row(replica):
    counts = Counts()
    counts.note(replica.pk, load(100), after(0))
    counts.note(replica.pk, load(103), after(1))
    counts.note(replica.pk, load(7, began=AT), after(2))
    assert written() == [(1, 103), (2, 7)]


def test_the_last_reading_before_the_end_is_written(replica):
    counts = Counts()
    counts.note(replica.pk, load(100), after(0))
    counts.note(replica.pk, load(104), after(1))
    counts.keep_only(set())
    assert written() == [(1, 104)]
    counts.note(replica.pk, load(100), after(0))  # late: another worker of the node was faster
    assert written() == [(1, 104)]
