"""An engine that Weir did not launch is judged like ours, from its first reading on."""

from datetime import timedelta

import pytest

from control.metering.drift import actions as drift
from control.metering.drift.external import actions
from control.models import Drift, EngineCount, EngineReading
from engines.spec import EngineLoad
from tests.fleet.rows import a_deployment, a_replica
from tests.metering.conftest import AT as NOON
from tests.metering.drift.test_actions import Spools, unexplained

pytestmark = pytest.mark.django_db


@pytest.fixture
def replica():
    return a_replica(a_deployment(), at=NOON, id=7)


@pytest.fixture
def spools(house, tmp_path):
    return Spools(house, tmp_path)


def read(minute: float, tokens: tuple[int, int], started: float = 0.0) -> None:
    counters = {"prompt_tokens": tokens[0], "generation_tokens": tokens[1]}
    load = EngineLoad(**counters, started_at_seconds=started)
    actions.note(7, load, NOON + timedelta(minutes=minute))


def judged() -> list[Drift]:
    late = NOON + timedelta(hours=5)
    return sorted(drift.judge(late, late), key=lambda row: row.begin_at)


@pytest.mark.parametrize("minute", [0, 1, 59, 60])
def test_one_reading_is_held_against_nothing(replica, minute):
    read(minute, (90_000, 40_000))
    assert judged() == []


def test_what_it_counted_before_it_was_ours_is_nobodys(replica, spools):
    read(1, (90_000, 40_000))
    for minute in (5, 20, 65):
        spools.call(minute)
    read(59, (90_200, 40_100))
    read(119, (90_300, 40_150))
    first, second = judged()
    assert unexplained([first, second]) == [(0, 0), (0, 0)]
    assert (first.begin_at, first.end_at) == (
        NOON + timedelta(minutes=1),
        NOON + timedelta(minutes=59),
    )
    assert (first.engine_input_tokens, first.attempts) == (200, 2)
    assert (second.engine_input_tokens, second.attempts) == (100, 1)


def test_the_last_reading_of_an_hour_stands(replica, spools):
    read(1, (0, 0))
    spools.call(5)
    for minute in (10, 20, 30):
        read(minute, (100, 50))
    [row] = judged()
    assert (row.end_at, row.is_incident) == (NOON + timedelta(minutes=30), False)
    assert EngineCount.objects.count() == 2


def test_what_others_made_it_do_is_an_incident(replica, spools):
    read(1, (0, 0))
    spools.call(5)
    read(59, (5_100, 50))
    [row] = judged()
    assert row.is_incident
    assert unexplained([row]) == [(5_000, 0)]


def test_a_restart_counts_from_zero(replica, spools):
    read(1, (7_000, 7_000), started=NOON.timestamp() - 9_000)
    spools.call(5)
    read(10, (7_100, 7_050), started=NOON.timestamp() - 9_000)
    restarted = NOON.timestamp() + 15 * 60
    spools.call(20)
    read(30, (100, 50), started=restarted)
    before, after = judged()
    assert unexplained([before, after]) == [(0, 0), (0, 0)]
    assert after.begin_at.timestamp() == restarted


def test_counters_that_fall_without_a_word_begin_anew(replica, spools):
    read(1, (7_000, 7_000))
    read(10, (7_000, 7_000))
    spools.call(20)  # in no span: nobody knows what was counted of it
    read(30, (40, 20))
    spools.call(40)
    read(50, (140, 70))
    first, second = judged()
    assert unexplained([first, second]) == [(0, 0), (0, 0)]
    assert (second.begin_at, second.attempts) == (NOON + timedelta(minutes=30), 1)


@pytest.mark.parametrize(("counts_on", "spans"), [(True, 1), (False, 2)])
def test_a_gap_is_bridged_unless_others_used_it_meanwhile(replica, spools, counts_on, spans):
    read(1, (0, 0))
    read(10, (0, 0))
    actions.not_read(7, "why", NOON + timedelta(minutes=20), counts_on=counts_on)
    assert EngineReading.objects.get().why_not == "why"
    others = 0 if counts_on else 9_999
    read(30, (others, others))
    assert EngineReading.objects.get().why_not == ""
    spools.call(40)
    read(50, (others + 100, others + 50))
    rows = judged()
    assert len(rows) == spans
    assert set(unexplained(rows)) == {(0, 0)}
