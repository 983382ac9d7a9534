"""Tokens as they can be true, amounts as text, cost rates: exact, whatever comes in."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.checks import Refused
from control.metering.cost.wanted import cost_rate_wanted
from control.metering.rules import PICO, amount_text


@pytest.mark.parametrize(
    ("pico", "text"),
    [
        (0, "0"),
        (1, "0.000000000001"),
        (PICO, "1"),
        (-PICO // 2, "-0.5"),
        (10**26, "100000000000000"),
        (Decimal("1E+13"), "10"),
        (100 * PICO, "100"),
    ],
)
def test_amounts_are_plain_decimals(pico, text):
    assert amount_text(pico) == text


@given(st.integers(-(10**37), 10**37))
def test_amount_text_loses_nothing(pico):
    text = amount_text(pico)
    assert "E" not in text.upper()
    whole, _, part = text.lstrip("-").partition(".")
    value = int(whole) * PICO + int(part.ljust(12, "0"))
    assert (-value if text.startswith("-") else value) == pico


def test_a_cost_rate_is_read_exactly_and_absent_parts_cost_nothing():
    rate = cost_rate_wanted("*", "USD", {"hardware_per_hour": "2.50", "power_watts": 700})
    assert (rate.hardware_per_hour, rate.power_watts, rate.pue) == (Decimal("2.50"), 700, 1)
    for numbers in ({"pue": "0.9"}, {"watts": 1}, {"power_watts": 1.5}):
        with pytest.raises(Refused):
            cost_rate_wanted("*", "USD", numbers)
