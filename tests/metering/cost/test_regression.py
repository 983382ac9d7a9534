"""Weights of token classes are found again in the busy time that they made."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from control.metering.cost.regression import (
    HOURS_MIN,
    HourOfUse,
    Measured,
    NotMeasured,
    least_squares,
    measure,
)
from control.metering.cost.rules import WEIGHTS

HOUR = 3_600_000_000


def an_hour(number: int, cached: int = 3, output: int = 7, noise: int = 0) -> HourOfUse:
    """50 µs an input token, 5 a cached one, 200 an output token: 1 : 0.1 : 4."""
    fresh = 10_000_000 + 700_000 * (number % 7)
    held = cached * (1_000_000 + 90_000 * (number % 5))
    made = output * (1_000_000 + 80_000 * (number % 3))
    busy = 50 * fresh + 5 * held + 200 * made + noise
    return HourOfUse(fresh, held, made, busy, HOUR)


def test_weights_are_measured_from_hours_of_use():
    found = measure([an_hour(number) for number in range(30)])
    assert isinstance(found, Measured)
    assert (found.weights.cached_input, found.weights.output) == (Fraction(1, 10), 4)
    assert (found.hours, found.microseconds) == (30, (50, 5, 200))


def test_noise_moves_them_little():
    noisy = [an_hour(number, noise=(-1) ** number * 10_000_000) for number in range(60)]
    found = measure(noisy)
    assert abs(found.weights.output - 4) < Fraction(1, 5)


def test_hours_of_little_use_are_left_out():
    quiet = HourOfUse(1000, 0, 1000, HOUR * 30 // 100, HOUR)
    found = measure([an_hour(1)] * (HOURS_MIN - 1) + [quiet])
    assert found == NotMeasured("23 hours of more than 30 % use, at least 24 are needed")
    assert measure([an_hour(1)]).reason.startswith("1 hour of more")


def test_a_class_without_time_of_its_own_is_told():
    hours = [HourOfUse(number, 0, 0, number * HOUR // 40, HOUR) for number in range(15, 40)]
    assert measure(hours) == NotMeasured("output tokens show no time of their own in 25 hours")


def test_without_cached_tokens_their_given_weight_holds():
    found = measure([an_hour(number, cached=0) for number in range(30)])
    assert (found.weights.cached_input, found.weights.output) == (WEIGHTS.cached_input, 4)


def test_a_weight_is_never_negative():
    # The best fit without bounds would take time away for cached tokens.
    rows = [(10, 1, 1), (10, 5, 1), (10, 9, 2), (20, 3, 2)]
    found = least_squares(rows, [30, 20, 12, 50])
    assert found[1] == 0
    assert min(found) >= 0


@given(
    st.lists(st.tuples(*[st.integers(0, 50)] * 3), min_size=1, max_size=8),
    st.tuples(*[st.integers(0, 9)] * 3),
)
def test_what_made_the_values_explains_them_all(rows, weights):
    values = [sum(a * b for a, b in zip(row, weights, strict=True)) for row in rows]
    found = least_squares(rows, values)
    again = [sum(a * b for a, b in zip(row, found, strict=True)) for row in rows]
    assert again == values
    assert min(found) >= 0
