"""Prices proposed from cost: with the margin left in the price, up to the next step."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.checks import Refused
from control.metering.prices.proposal import below_cost, margin, proposed, up_to_step
from control.metering.prices.wanted import row_wanted
from control.metering.rules import PICO_PER_TOKEN

COST = {name: Fraction(10) for name in ("input", "cached_input", "output", "reasoning")}


@pytest.mark.parametrize(
    ("cost", "margin_percent", "step_pico", "price"),
    [
        ("10", 0, 10_000, "10"),
        ("7", 30, 10_000, "10"),  # 3 of 10 are left
        ("7.0000001", 30, 10_000, "10.01"),
        ("0.0001", 0, 10_000, "0.01"),
        ("0", 30, 10_000, "0"),
        ("1/3", 0, 1, "0.333334"),
        ("1/3", 0, 500_000, "0.5"),
        ("1", 95, 1_000_000, "20"),
    ],
)
def test_a_price_is_cost_with_its_margin_rounded_up_to_the_step(
    cost, margin_percent, step_pico, price
):
    assert proposed({"output": Fraction(cost)}, margin_percent, step_pico) == {"output": price}


@pytest.mark.parametrize("margin_percent", [-1, 96, 100])
def test_a_margin_that_no_price_has_is_refused(margin_percent):
    with pytest.raises(Refused, match="margin_percent"):
        proposed(COST, margin_percent, 1)


@given(
    cost=st.fractions(0, 10**6),
    margin_percent=st.integers(0, 95),
    step_pico=st.integers(1, 10**6),
)
def test_what_is_proposed_leaves_the_margin_and_no_step_too_much(cost, margin_percent, step_pico):
    share = Fraction(100 - margin_percent, 100)
    price = up_to_step(cost / share, step_pico)
    assert price % step_pico == 0
    assert price * share >= cost * PICO_PER_TOKEN
    assert (price - step_pico) * share < cost * PICO_PER_TOKEN or price == 0
    if price:
        assert margin(price, cost) >= 1 - share


@pytest.mark.parametrize(
    ("per_million", "below"),
    [
        ({"input": "10", "output": "10"}, []),
        ({"input": "9.999999", "output": "10"}, ["input", "cached_input"]),
        ({"input": "10", "cached_input": "1", "output": "10"}, ["cached_input"]),
        ({"input": "10", "output": "10", "reasoning": "9"}, ["reasoning"]),
        ({"input": "0", "output": "11"}, ["input", "cached_input"]),
    ],
)
def test_each_price_is_judged_by_the_cost_of_its_class(per_million, below):
    found = below_cost([row_wanted("", per_million, "batch", 100)], COST)
    assert [one.token_class for one in found] == below
    for one in found:
        assert str(one).startswith(f"{one.token_class} of batch from 100 tokens on at")
        assert str(one).endswith("costs 10")


def test_what_is_given_away_has_no_margin():
    assert margin(0, Fraction(1)) is None
