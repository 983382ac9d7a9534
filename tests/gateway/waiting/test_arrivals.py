"""The rate of more urgent calls: steady ones are averaged, a jump is believed at once."""

import pytest

from control.gateway.waiting.arrivals import Arrivals
from control.gateway.waiting.rules import ORDER

INTERACTIVE, STANDARD, BATCH = ORDER


def after(*spells):
    """What is believed after spells of (looks, standard calls before each), 16 looks a second."""
    arrivals, at = Arrivals(0.0), 0.0
    for looks, calls in spells:
        for _ in range(looks):
            at += 1 / 16
            arrivals.came[STANDARD] += calls
            arrivals.above(BATCH, at)
    return arrivals.above(BATCH, at)


@pytest.mark.parametrize(
    ("spells", "least", "most"),
    [
        ([(32, 6)], 96, 96),
        ([(480, 0), (1, 8)], 120, 128),  # a flood begins
        ([(480, 1), (2, 9)], 130, 150),
        ([(480, 2), (2, 9)], 130, 150),
        ([(480, 6), (2, 7)], 96, 98),  # no jump: chance goes so far
        ([(480, 8), (80, 0)], 0, 0),
        ([(480, 8), (32, 1)], 64, 112),  # what ebbs may come again
    ],
)
def test_what_is_believed_of_a_rate(spells, least, most):
    assert least <= after(*spells) <= most


def test_a_few_urgent_calls_are_no_flood():
    arrivals = Arrivals(0.0)
    arrivals.came[INTERACTIVE] += 4
    assert arrivals.above(BATCH, 0.05) == 0.0
    assert arrivals.above(BATCH, 6.0) == pytest.approx(4 / 6)


def test_only_the_more_urgent_are_above():
    arrivals = Arrivals(0.0)
    arrivals.came.update({INTERACTIVE: 10, STANDARD: 20, BATCH: 30})
    assert arrivals.above(BATCH, 1.0) == 30.0
    assert arrivals.above(STANDARD, 1.0) == 10.0
    assert arrivals.above(INTERACTIVE, 1.0) == 0.0
