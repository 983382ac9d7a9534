"""Rates: GCRA by its published vectors, and against a token bucket with exact fractions."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.gateway.admission.rules import (
    Denied,
    Gcra,
    Granted,
    Rate,
    Slots,
    checks_of,
    duration_text,
    share_of,
)

VECTORS = [  # T = 1 s, B = 5: at, units, what comes of it
    (0, 1, (True, 4)),
    (0, 1, (True, 3)),
    (0, 1, (True, 2)),
    (0, 1, (True, 1)),
    (0, 1, (True, 0)),
    (0, 1, (False, 1)),
    (1, 1, (True, 0)),
    (1, 1, (False, 1)),
    (3.5, 2, (True, 0)),
    (3.5, 1, (False, 0.5)),
    (20, 5, (True, 0)),
    (20, 1, (False, 1)),
]


def test_the_published_vectors():
    rate, tat = Gcra(1, 5), 0
    for at, units, (granted, number) in VECTORS:
        taken = rate.take(tat, at, units)
        if granted:
            assert isinstance(taken, Granted), (at, units)
            assert taken.remaining == number
            tat = taken.tat
        else:
            assert taken == Denied(number), (at, units)
    assert isinstance(rate.take(0, 3.5, 2), Granted)


def test_the_reset_is_until_the_whole_burst_is_there_again():
    rate, tat = Gcra(1, 5), 0
    for at in (0, 0, 0, 0, 0, 1):
        tat = rate.take(tat, at).tat
    assert rate.take(tat, 3.5, 2).reset_seconds == 4.5


class Bucket:
    """The same limit as a level that refills."""

    def __init__(self, capacity: int, rate: Fraction) -> None:
        self.capacity, self.rate = capacity, rate
        self.level, self.since = Fraction(capacity), Fraction(0)

    def take(self, at: Fraction, units: int) -> Fraction | None:
        """None if granted, else the wait."""
        self.level = min(self.capacity, self.level + self.rate * (at - self.since))
        self.since = at
        if self.level >= units:
            self.level -= units
            return None
        return (units - self.level) / self.rate


arrivals = st.lists(
    st.tuples(st.fractions(0, 5, max_denominator=50), st.integers(1, 6)), max_size=60
)


@given(st.integers(1, 8), st.fractions("1/20", 5, max_denominator=20), arrivals)
def test_gcra_is_a_token_bucket(burst, period, gaps):
    rate, bucket = Gcra(period, burst), Bucket(burst, 1 / period)
    tat = at = Fraction(0)
    for gap, units in gaps:
        at += gap
        taken = rate.take(tat, at, units)
        if units > burst:
            assert taken == Denied(None)
            continue
        wait = bucket.take(at, units)
        if isinstance(taken, Granted):
            tat = taken.tat
            assert wait is None
            assert taken.remaining == int(bucket.level)
        else:
            assert taken.wait_seconds == wait


@given(st.integers(1, 8), st.fractions("1/20", 5, max_denominator=20), arrivals)
def test_waiting_exactly_the_told_time_succeeds(burst, period, gaps):
    rate = Gcra(period, burst)
    tat = at = Fraction(0)
    for gap, units in gaps:
        at += gap
        taken = rate.take(tat, at, units)
        if isinstance(taken, Denied) and taken.wait_seconds is not None:
            at += taken.wait_seconds
            taken = rate.take(tat, at, units)
            assert isinstance(taken, Granted)
        if isinstance(taken, Granted):
            tat = taken.tat


@given(st.integers(1, 8), st.integers(1, 8))
def test_what_is_given_back_can_be_taken_again(burst, units):
    rate = Gcra(Fraction(1), burst)
    taken = rate.take(0, 10, min(units, burst))
    assert rate.adjust(taken.tat, 10, -min(units, burst)) == 10


@given(st.integers(1, 1000), st.floats(0, 1e9))
def test_a_full_bucket_grants_its_whole_burst_by_any_clock(burst, at):
    assert isinstance(Gcra(60 / burst, burst).take(0.0, at, burst), Granted)


def test_a_clock_that_goes_back_changes_nothing():
    rate = Gcra(1, 2)
    tat = rate.take(0, 10).tat
    assert rate.take(tat, 9) == Denied(1)


@pytest.mark.parametrize(
    ("limits", "checks"),
    [
        ({}, ()),
        ({"output_tokens": 5}, ()),
        ({"requests_per_second": 4}, (Rate("k:9", "requests_per_second", 4, Gcra(1 / 4, 4)),)),
        (
            {"requests_per_second": 4, "burst": 9},
            (Rate("k:9", "requests_per_second", 4, Gcra(1 / 4, 9)),),
        ),
        ({"requests_per_minute": 6}, (Rate("k:9", "requests_per_minute", 6, Gcra(10, 6)),)),
        ({"concurrent_calls": 0}, (Slots("k:9", "concurrent_calls", 0),)),
    ],
)
def test_a_scope_asks_only_for_what_it_names(limits, checks):
    assert checks_of("k:9", limits) == checks


def test_a_share_is_a_part_of_the_rate_and_of_the_burst():
    [rate, slots] = checks_of("k:9", {"requests_per_minute": 60, "concurrent_calls": 7})
    assert share_of(rate, 2).gcra == Gcra(2.0, 30)
    assert share_of(slots, 2).most == 3
    assert share_of(slots, 20).most == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.009, "9ms"),
        (1, "1s"),
        (1.5, "1.5s"),
        (59.7, "59.7s"),
        (60, "1m0s"),
        (90.951, "1m30.951s"),
        (360, "6m0s"),
        (3600, "1h0m0s"),
        (86399.5, "23h59m59.5s"),
    ],
)
def test_durations_read_as_clients_expect(seconds, text):
    assert duration_text(seconds) == text
