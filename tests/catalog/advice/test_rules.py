"""What the same calls would have cost elsewhere, and what a quantisation promised."""

from fractions import Fraction

import pytest

from control.catalog.advice.rules import (
    NEVER_SERVED,
    Cheaper,
    NotKnown,
    Served,
    Weighed,
    same_calls,
    variant_wanted,
)
from control.checks import Refused
from control.metering.cost.rules import PerMillion, Volume

CALLS = Volume(3_000_000, 1_000_000, 500_000)


def a_served(unit: int | None, currency: str = "USD") -> Served:
    price = None
    if unit is not None:
        price = PerMillion(Fraction(unit), Fraction(unit, 10), Fraction(4 * unit))
    return Served(CALLS, price, currency, Fraction(120))


@pytest.mark.parametrize(
    ("cost", "other", "expected"),
    [
        # 2 M x 1 + 1 M x 0.1 + 0.5 M x 4 = 4.1
        (8, a_served(1), Cheaper(Fraction("4.1"), Fraction("3.9"), Fraction("0.4875"))),
        (4, a_served(2), Cheaper(Fraction("8.2"), Fraction("-4.2"), Fraction("-1.05"))),
        (8, a_served(None), NotKnown(NEVER_SERVED)),
        (8, a_served(1, "CNY"), NotKnown("its cost is in CNY, not in USD")),
        (0, a_served(1), NotKnown("its own cost is not known")),
    ],
)
def test_the_same_calls_elsewhere(cost, other, expected):
    assert same_calls(Fraction(cost), a_served(9), other) == expected


def test_a_quantisation_that_takes_more_than_its_files_say_gave_less():
    assert Weighed(1000, 1051).is_less_than_promised
    assert not Weighed(1000, 1050).is_less_than_promised
    assert not Weighed(1000, 900).is_less_than_promised


@pytest.mark.parametrize(
    "wanted", [("m", "m:v", "smaller"), ("m:v", "m:v", "smaller"), ("m:v", "m:w", "better")]
)
def test_a_variant_is_a_version_for_another(wanted):
    with pytest.raises(Refused):
        variant_wanted(*wanted)
