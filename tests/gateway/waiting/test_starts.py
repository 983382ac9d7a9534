"""When a call would start, and who makes room for it: CONVENTIONS 6.8, without a clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.gateway.waiting import rules
from control.gateway.waiting.arrivals import Arrivals
from control.gateway.waiting.pace import Mean, Pace, Rhythm
from control.states import Priority

INTERACTIVE, STANDARD, BATCH = rules.ORDER
NOBODY = {INTERACTIVE: {}, STANDARD: {}, BATCH: {}}


@pytest.mark.parametrize(
    ("waiting", "priority", "turns"),
    [
        ({}, STANDARD, 1),
        ({STANDARD: {1: 4}}, STANDARD, 5),  # behind its own
        ({STANDARD: {2: 100}}, STANDARD, 2),  # a flood of another costs it one turn
        ({STANDARD: {1: 1, 2: 1, 3: 100}}, STANDARD, 5),
        ({INTERACTIVE: {2: 3}}, STANDARD, 4),
        ({INTERACTIVE: {2: 1000}}, STANDARD, 1 / 0.15),  # its reserved share
        ({STANDARD: {2: 1000}}, BATCH, 1 / 0.05),
        ({BATCH: {2: 1000}}, STANDARD, 1 / 0.95),
        ({STANDARD: {2: 9}, BATCH: {2: 9}}, INTERACTIVE, 1 / 0.8),
    ],
)
def test_how_many_turns_come_first(waiting, priority, turns):
    waiting = NOBODY | waiting
    assert rules.turns_until(waiting, priority, tenant=1) == pytest.approx(turns)
    assert rules.start(waiting, priority, 1, Pace(0.5), None) == pytest.approx(turns / 2)
    assert rules.start(waiting, priority, 1, None, None) is None


@pytest.mark.parametrize(
    ("waiting", "priority", "coming", "turns"),
    [
        ({STANDARD: {1: 4}}, STANDARD, 0.5, 10),  # half of the turns go to those who come
        ({STANDARD: {1: 4}}, STANDARD, 1.5, 5 / 0.15),  # all of them, but what is reserved
        ({STANDARD: {1: 4}, BATCH: {2: 1}}, STANDARD, 0.45, 10),
        ({INTERACTIVE: {2: 3}}, STANDARD, 0.2, 5),
        ({}, BATCH, 0.9, 10),
        ({}, BATCH, 0.99, 20),
        ({INTERACTIVE: {2: 1}, STANDARD: {2: 1}}, BATCH, 0.5, 6),
    ],
)
def test_who_is_more_urgent_and_still_to_come_takes_turns_too(waiting, priority, coming, turns):
    waiting = NOBODY | waiting
    assert rules.turns_until(waiting, priority, 1, coming) == pytest.approx(turns)
    seconds = rules.start(waiting, priority, 1, Pace(0.5), None, 2 * coming)
    assert seconds == pytest.approx(turns / 2)


def test_a_rate_needs_a_few_calls_and_follows_them():
    arrivals = Arrivals(100.0)
    arrivals.came[STANDARD] += 4
    assert arrivals.above(BATCH, 100.2) == 0
    arrivals.came[INTERACTIVE] += 4
    assert arrivals.above(BATCH, 100.4) == pytest.approx(20)
    assert arrivals.above(STANDARD, 100.4) == pytest.approx(10)
    assert arrivals.above(INTERACTIVE, 100.4) == 0
    assert arrivals.above(BATCH, 103.0) == pytest.approx(20)
    assert arrivals.above(BATCH, 105.5) == 0  # none for so long


def test_the_slower_of_two_guesses_counts():
    """More urgent calls will come that do not wait yet: only the priority's own turns show it."""
    waiting = NOBODY | {STANDARD: {1: 3, 2: 1}}
    assert rules.start(waiting, STANDARD, 1, Pace(0.5), Pace(2.0)) == 10.0
    assert rules.start(waiting, STANDARD, 1, Pace(0.5), Pace(0.1)) == 2.5


def test_uneven_turns_take_longer_at_worst():
    assert Pace(2.0).seconds_for(9) == 18.0
    assert Pace(2.0, 1.0).seconds_for(9) == pytest.approx(18 + 2.33 * (9 + 81 / 50) ** 0.5)


def test_a_mean_is_known_after_a_few_values_and_follows_the_latest():
    mean = Mean()
    for _ in range(4):
        mean.add(1.0)
    assert mean.pace is None
    mean.add(6.0)
    assert mean.pace == pytest.approx((2.0, 2.0))
    for _ in range(600):
        mean.add(9.0)
    assert mean.pace == pytest.approx((9.0, 0.0), abs=0.01)


@given(st.lists(st.floats(0, 1e4), min_size=5, max_size=50))
def test_a_mean_and_its_spread_are_those_of_all_as_long_as_they_are_few(values):
    mean = Mean()
    for value in values:
        mean.add(value)
    average = sum(values) / len(values)
    spread = (sum((value - average) ** 2 for value in values) / len(values)) ** 0.5
    assert mean.pace == pytest.approx((average, spread), abs=1e-3)


def test_a_rhythm_slows_down_while_a_turn_is_overdue():
    rhythm = Rhythm()
    rhythm.begins(100.0)
    assert rhythm.pace(104.0) is None
    rhythm.had_turn(104.0)
    assert rhythm.pace(106.0).seconds == 6.0  # one turn in 6 s
    for at in range(105, 200):
        rhythm.had_turn(float(at))
    assert rhythm.pace(199.5).seconds == pytest.approx(1.0, abs=0.1)
    assert rhythm.pace(204.0).seconds == pytest.approx(3.0, abs=0.1)
    rhythm.begins(220.0)  # after a pause, which is not a time between turns
    assert rhythm.pace(220.0).seconds == pytest.approx(1.0, abs=0.1)
    rhythm.begins(251.0)
    assert rhythm.pace(260.0) is None


@pytest.mark.parametrize(
    ("waiting", "priority", "who"),
    [
        ({STANDARD: {1: 9}}, STANDARD, None),  # its own
        ({STANDARD: {1: 4, 2: 5}}, STANDARD, None),  # they would only change places
        ({STANDARD: {1: 4, 2: 6}}, STANDARD, (STANDARD, 2)),
        ({STANDARD: {2: 9}, BATCH: {1: 1}}, STANDARD, (BATCH, 1)),
        ({STANDARD: {2: 9}, BATCH: {1: 1}}, INTERACTIVE, (BATCH, 1)),
        ({INTERACTIVE: {2: 9}}, STANDARD, None),
        ({INTERACTIVE: {2: 9}, STANDARD: {2: 9}}, BATCH, None),
    ],
)
def test_who_makes_room_in_a_full_queue(waiting, priority, who):
    assert rules.displaced(NOBODY | waiting, priority, tenant=1) == who


@given(
    st.fixed_dictionaries(
        {p: st.dictionaries(st.integers(1, 5), st.integers(1, 40), max_size=4) for p in Priority}
    ),
    st.sampled_from(rules.ORDER),
    st.integers(1, 5),
)
def test_one_more_that_waits_never_makes_a_start_earlier(waiting, priority, tenant):
    before = rules.turns_until(waiting, priority, tenant)
    mine = waiting[priority]
    after = waiting | {priority: mine | {tenant: mine.get(tenant, 0) + 1}}
    assert rules.turns_until(after, priority, tenant) >= before + 1
    assert before >= 1
