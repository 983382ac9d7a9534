"""A device's time is on lines that sum to all of it, to the microsecond."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.metering.cost.lines import (
    NOBODY,
    TITLES,
    Holder,
    Line,
    line_of,
    percents,
    split,
    unseen_microseconds,
    whole_parts,
)
from control.states import ReplicaState

SECOND = 1_000_000
READY = ReplicaState.READY


def a_holder(replica: int = 1, state=READY, size: int = 100, busy: float = 0.0) -> Holder:
    return Holder(replica, state, size, busy)


def test_a_device_that_nobody_holds_is_free_or_in_quarantine():
    assert split(SECOND, [], quarantined=False) == {(Line.FREE, NOBODY): SECOND}
    assert split(SECOND, [], quarantined=True) == {(Line.QUARANTINE, NOBODY): SECOND}


def test_what_a_launch_in_quarantine_still_serves_is_its_own():
    held = split(SECOND, [a_holder(busy=1.0)], quarantined=True)
    assert held == {(Line.BUSY, 1): SECOND}


def test_serving_is_busy_and_idle():
    held = split(SECOND, [a_holder(busy=0.25)], quarantined=False)
    assert held == {(Line.BUSY, 1): 250_000, (Line.IDLE, 1): 750_000}


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (ReplicaState.PLACED, Line.LOADING),
        (ReplicaState.PREPARING, Line.LOADING),
        (ReplicaState.STARTING, Line.LOADING),
        (ReplicaState.LOADING, Line.LOADING),
        (ReplicaState.WARMING, Line.WARM_UP),
        (ReplicaState.READY, Line.IDLE),
        (ReplicaState.UNHEALTHY, Line.IDLE),
        (ReplicaState.DRAINING, Line.DRAIN),
        (ReplicaState.ASLEEP, Line.SLEEP),
        (ReplicaState.WAKING, Line.LOADING),
        (ReplicaState.STOPPED, Line.DRAIN),
        (ReplicaState.FAILED, Line.CRASH),
        (ReplicaState.LOST, Line.CRASH),
    ],
)
def test_every_state_is_a_line_of_its_own(state, line):
    assert line_of(state) is line
    assert split(SECOND, [a_holder(state=state)], quarantined=False) == {(line, 1): SECOND}


def test_calls_before_tenants_are_warm_up_and_calls_in_a_drain_are_use():
    warming = a_holder(state=ReplicaState.WARMING, busy=1.0)
    assert split(SECOND, [warming], quarantined=False) == {(Line.WARM_UP, 1): SECOND}
    draining = a_holder(state=ReplicaState.DRAINING, busy=0.5)
    held = split(SECOND, [draining], quarantined=False)
    assert held == {(Line.BUSY, 1): 500_000, (Line.DRAIN, 1): 500_000}


def test_of_a_shared_card_use_is_by_busy_time_and_idle_by_memory():
    held = split(SECOND, [a_holder(1, size=60, busy=0.2), a_holder(2, size=20)], quarantined=False)
    assert held == {
        (Line.BUSY, 1): 200_000,
        (Line.IDLE, 1): 600_000,
        (Line.IDLE, 2): 200_000,
    }


def test_two_that_are_busy_at_once_share_the_time_by_their_busy_times():
    held = split(SECOND, [a_holder(1, busy=1.0), a_holder(2, busy=0.5)], quarantined=False)
    assert held == {(Line.BUSY, 1): 666_667, (Line.BUSY, 2): 333_333}


def test_one_that_loads_beside_one_that_serves():
    loading = a_holder(2, ReplicaState.LOADING, size=100)
    held = split(SECOND, [a_holder(1, size=300, busy=0.6), loading], quarantined=False)
    assert held == {
        (Line.BUSY, 1): 600_000,
        (Line.IDLE, 1): 300_000,
        (Line.LOADING, 2): 100_000,
    }


@given(
    microseconds=st.integers(0, 60 * SECOND),
    holders=st.lists(
        st.builds(
            Holder,
            st.integers(1, 5),
            st.sampled_from(list(ReplicaState)),
            st.integers(0, 10**12),
            st.floats(-1, 2),
        ),
        max_size=5,
    ),
    quarantined=st.booleans(),
)
def test_the_lines_of_any_second_sum_to_it(microseconds, holders, quarantined):
    parts = split(microseconds, holders, quarantined=quarantined)
    assert sum(parts.values()) == microseconds
    assert all(part >= 0 for part in parts.values())


@given(
    st.integers(0, 10**15),
    st.dictionaries(st.integers(), st.fractions(0, 10**6), max_size=8),
)
def test_whole_parts_sum_to_the_whole(whole, weights):
    parts = whole_parts(whole, weights)
    assert sum(parts.values()) == (whole if any(weights.values()) else 0)


@given(st.dictionaries(st.sampled_from(list(Line)), st.integers(0, 10**15), min_size=1))
def test_what_is_shown_sums_to_one_hundred(parts):
    shown = percents(parts)
    assert sum(shown.values()) == (Decimal(100) if any(parts.values()) else 0)


def test_what_is_on_no_line_was_not_seen():
    assert unseen_microseconds(10, [3, 4]) == 3
    assert unseen_microseconds(10, [8, 4]) == 0


def test_every_line_has_a_title():
    assert set(TITLES) == set(Line)
    assert percents({Line.BUSY: Fraction(1), Line.IDLE: Fraction(2)}) == {
        Line.BUSY: Decimal("33.33"),
        Line.IDLE: Decimal("66.67"),
    }
