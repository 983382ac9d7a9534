"""The books beside engines' own counters, hour by hour: what nothing explains is an incident."""

from datetime import timedelta

import pytest

from control.checks import Refused
from control.metering.drift import actions, attempts, books
from control.metering.ingest import ship
from control.models import Attempt, AuditEntry, Drift, EngineCount, SpoolPosition
from control.states import Purpose
from tests.fleet.rows import a_deployment, a_replica
from tests.metering.conftest import AT as NOON
from tests.metering.conftest import spool

HOUR = timedelta(hours=1)
LATER = NOON + 2 * HOUR
BY = {"by": "ada", "reason": "a benchmark asked it directly", "at": LATER}

pytestmark = pytest.mark.django_db


@pytest.fixture
def replica():
    return a_replica(a_deployment(), at=NOON - HOUR, id=7)


def counted(replica, minutes: float, tokens: tuple[int, int], *, began=NOON) -> None:
    at = NOON + timedelta(minutes=minutes)
    EngineCount.objects.create(
        replica=replica,
        hour=at.replace(minute=0),
        counted_from=began,
        read_at=at,
        prompt_tokens=tokens[0],
        generation_tokens=tokens[1],
    )


class Spools:
    def __init__(self, house, folder) -> None:
        self.house, self.folder, self.number = house, folder, 0

    def call(self, minute: float, seconds: float = 10, **changes) -> None:
        """One of 100 tokens in and 50 out, begun so many minutes after noon."""
        self.number += 1
        begun = NOON.timestamp() + minute * 60
        times = {"first_token_at": begun + 0.1, "ended_at": begun + seconds}
        close = self.house.close(f"req_{self.number}", started_at=begun, **times | changes)
        spool(self.folder, close, owner=f"gw-{self.number}")
        ship(self.folder, set(), LATER)


@pytest.fixture
def spools(house, tmp_path):
    return Spools(house, tmp_path)


def unexplained(rows: list[Drift]) -> list[tuple[int, int]]:
    return [(row.unexplained_input_tokens, row.unexplained_output_tokens) for row in rows]


def test_hours_that_are_over_are_judged_once(replica, spools):
    for minute in (5, 20, 65):
        spools.call(minute)
    counted(replica, 59, (200, 100))
    counted(replica, 119, (300, 150))
    first, second = actions.judge_hours(LATER + HOUR)
    assert unexplained([first, second]) == [(0, 0), (0, 0)]
    assert (first.begin_at, first.end_at) == (NOON, NOON + timedelta(minutes=59))
    assert (second.begin_at, second.engine_input_tokens, second.attempts) == (first.end_at, 100, 1)
    assert (first.input_tokens, first.output_tokens, first.attempts) == (200, 100, 2)
    assert not first.calls
    assert actions.judge_hours(LATER + HOUR) == []


def test_nothing_is_judged_before_its_calls_are_stored(replica, spools):
    counted(replica, 59, (0, 0))
    assert actions.judge_hours(NOON + HOUR) == []  # its calls may run
    SpoolPosition.objects.all().delete()
    behind = NOON + timedelta(minutes=40)
    SpoolPosition.objects.create(
        owner="gw", segment=1, offset=0, at=LATER, stored_until=behind, read_until=LATER
    )
    assert actions.judge_hours(LATER) == []
    SpoolPosition.objects.update(stored_until=LATER)
    assert len(actions.judge_hours(LATER)) == 1


def test_a_call_over_the_edge_of_an_hour_is_no_drift(replica, spools):
    spools.call(58, seconds=240, output_tokens=4000)
    counted(replica, 60, (100, 2010), began=NOON)
    EngineCount.objects.update(hour=NOON)
    counted(replica, 90, (100, 4000))
    assert unexplained(actions.judge_hours(LATER + HOUR)) == [(0, 0), (0, 0)]


def test_what_an_engine_did_before_it_was_started_anew_is_not_asked_of_the_new_one(replica, spools):
    spools.call(5)
    spools.call(30)
    counted(replica, 10, (100, 50))
    counted(replica, 40, (100, 50), began=NOON + timedelta(minutes=20))
    assert unexplained(actions.judge_hours(LATER)) == [(0, 0), (0, 0)]


def test_a_call_just_after_an_engine_began_is_surely_its_own(replica, spools):
    """There is no edge where a launch begins: it leaves no room for what is unexplained."""
    spools.call(1 / 60)
    counted(replica, 30, (100, 50))
    [row] = actions.judge_hours(LATER)
    assert (row.input_tokens_min, row.output_tokens_min) == (100, 50)


def test_what_came_after_the_last_reading_before_a_crash_is_not_missed(replica, spools):
    spools.call(5)
    spools.call(20, seconds=30, outcome="truncated", output_tokens=60)  # half of it was read
    spools.call(20.6, outcome="upstream_error", input_tokens=0, output_tokens=0, untold=90)
    counted(replica, 20.25, (200, 75))
    [row] = actions.judge_hours(LATER)
    assert unexplained([row]) == [(0, 0)]
    assert (row.attempts, row.cut_attempts) == (2, 1)


def test_warm_ups_retries_and_several_answers_are_counted(replica, spools):
    at = NOON + timedelta(minutes=1)
    own = Attempt(
        call_id="own_1",
        number=1,
        replica_id=7,
        purpose=Purpose.WARM_UP,
        input_tokens=2048,
        output_tokens=4,
        tokens_source="engine",
        outcome="complete",
        started_at=at,
        ended_at=at,
    )
    attempts.write([own])
    spools.call(5, choices=3)
    counted(replica, 59, (2048 + 300, 4 + 50))
    [row] = actions.judge_hours(LATER)
    assert unexplained([row]) == [(0, 0)]
    assert row.attempts == 2


def test_what_nobody_wrote_down_is_an_incident_with_its_calls(replica, spools):
    spools.call(5)
    spools.call(6, outcome="client_closed")
    counted(replica, 59, (5200, 100))
    [row] = actions.judge_hours(LATER)
    assert (row.is_incident, row.unexplained_input_tokens) == (True, 5000)
    assert [call["call_id"] for call in row.calls] == ["req_2"]
    [entry] = AuditEntry.objects.filter(action="open drift incident")
    assert (
        entry.reason == "its engine counted +5,000 input tokens of 5,200 that no attempt explains"
    )
    assert books.open_count() == 1
    actions.judge_hours(LATER)  # again, for late usage may explain it
    assert AuditEntry.objects.filter(action="open drift incident").count() == 1


def test_late_usage_ends_an_incident(replica, spools):
    counted(replica, 59, (5000, 50))
    assert actions.judge_hours(LATER)[0].is_incident
    spools.call(5, input_tokens=5000)
    [row] = actions.judge_hours(LATER)
    assert not row.is_incident
    assert not books.open_count()
    assert AuditEntry.objects.filter(action="end drift incident").exists()


def test_a_person_closes_an_incident_and_says_what_it_was(replica):
    counted(replica, 59, (5000, 0))
    [row] = actions.judge_hours(LATER)
    with pytest.raises(Refused, match="say what it was"):
        actions.close_incident(row.pk, **BY | {"reason": " "})
    actions.close_incident(row.pk, **BY)
    actions.close_incident(row.pk, **BY)  # twice is as good as once
    assert not books.open_count()
    assert actions.judge_hours(LATER) == []
    row.refresh_from_db()
    assert (row.closed_by, row.closed_reason) == ("ada", "a benchmark asked it directly")
    assert AuditEntry.objects.filter(action="close drift incident").count() == 1
    with pytest.raises(Refused, match="no drift incident"):
        actions.close_incident(row.pk + 1, **BY)


def test_old_rows_go(replica):
    counted(replica, 59, (0, 0))
    actions.judge_hours(LATER)
    assert actions.prune(NOON + timedelta(days=399)) == 0
    assert actions.prune(NOON + timedelta(days=402)) == 2
