"""What a call costs: exact, cached tokens once, impossible counts clamped."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.checks import Refused
from control.metering.rules import (
    PICO,
    PriceFacts,
    Tokens,
    amount_text,
    charge,
    clamp,
    cost_pico,
    cost_rate_wanted,
    price_in_force,
    price_wanted,
    tokens_counted,
)

START = datetime(2026, 11, 1, tzinfo=UTC)


def a_price(per_million=("2.00", "0.50", "8.00"), number: int = 1, valid_from=START) -> PriceFacts:
    fresh, cached, output = per_million
    wanted = price_wanted("m", "USD", {"input": fresh, "cached_input": cached, "output": output})
    return PriceFacts(
        number, "USD", wanted.input_pico, wanted.cached_input_pico, wanted.output_pico, valid_from
    )


@pytest.mark.parametrize(
    ("tokens", "amount", "flagged"),
    [
        (Tokens(10_000, 8_000, 500), "0.012", False),
        (Tokens(10_000, 0, 500), "0.024", False),  # details null or absent
        (Tokens(10_000, 12_000, 500), "0.009", True),  # cached above input
        (Tokens(10_000, -5, 500), "0.024", True),
        (Tokens(-1, 0, -1), "0", True),
        (Tokens(10, 0, 5, reasoning=9), "0.00006", True),
    ],
)
def test_m05_cached_tokens_are_charged_once_and_at_their_rate(tokens, amount, flagged):
    counted = clamp(tokens)
    assert amount_text(cost_pico(counted, a_price())) == amount
    assert (counted != tokens) is flagged


def test_m05_without_a_cached_price_the_input_price_holds():
    assert price_wanted("m", "USD", {"input": "2", "output": "8"}).cached_input_pico == 2_000_000


def test_m06_ten_thousand_tiny_calls_sum_to_the_last_digit():
    price = a_price(("0", "0", "123"))
    one = cost_pico(Tokens(0, 0, 1), price)
    assert amount_text(one) == "0.000123"
    assert amount_text(sum(one for _ in range(10_000))) == "1.23"


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


def test_the_price_in_force_is_the_newest_begun_when_the_call_started():
    prices = [
        a_price(number=n, valid_from=START + timedelta(days=d))
        for n, d in ((1, 0), (2, 10), (3, 20), (4, 20))
    ]
    found = [price_in_force(prices, START + timedelta(days=d)) for d in (-1, 0, 10, 15, 20)]
    assert [price and price.id for price in found] == [None, 1, 2, 2, 4]


@pytest.mark.parametrize(
    ("outcome", "tokens", "amount"),
    [
        ("complete", Tokens(100, 0, 50), "0.0006"),
        ("client_closed", Tokens(100, 0, 12, delivered=9), "0.000296"),  # generated, not delivered
        ("client_closed", Tokens(100, 0, 0), "0.0002"),  # the engine took the input
        ("slow_client", Tokens(100, 0, 30, delivered=1), "0.00044"),
        ("truncated", Tokens(100, 0, 12), "0.000296"),
        ("lost", Tokens(100, 0, 12), "0.000296"),
        ("lost", Tokens(100, 0, 0), "0"),
        ("upstream_error", Tokens(100, 0, 0), "0"),
        ("deadline", Tokens(100, 0, 0), "0"),
        ("complete", Tokens(100, 0, 0), "0.0002"),
    ],
)
def test_an_interrupted_call_costs_its_input_and_what_was_generated(outcome, tokens, amount):
    assert amount_text(charge(outcome, tokens, a_price()).amount_pico) == amount


def test_r03_a_model_without_a_price_says_so():
    free = charge("complete", Tokens(100, 0, 50), None)
    assert (free.amount_pico, free.price_id, free.currency) == (0, None, "")
    assert "no price" in free.reason


@pytest.mark.parametrize(
    ("per_million", "complaint"),
    [
        ({"input": "0.1234567", "output": "1"}, "per_million.input: '0.1234567'"),
        ({"input": "1e3", "output": "1"}, "per_million.input: '1e3'"),
        ({"input": "-1", "output": "1"}, "per_million.input: '-1'"),
        ({"input": "NaN", "output": "1"}, "per_million.input: 'NaN'"),
        ({"input": 0.1, "output": "1"}, "per_million.input: 0.1"),
        ({"input": True, "output": "1"}, "per_million.input: True"),
        ({"input": "1"}, "per_million.output: is missing"),
        ({"input": "1", "output": "1", "image": "1"}, "per_million.image: is unknown"),
    ],
)
def test_a_price_that_cannot_be_kept_exactly_is_refused_with_its_field(per_million, complaint):
    with pytest.raises(Refused, match="^" + complaint):
        price_wanted("m", "USD", per_million)


def test_currencies_are_three_capitals():
    with pytest.raises(Refused, match="^currency"):
        price_wanted("m", "usd", {"input": "1", "output": "1"})


def test_a_cost_rate_is_read_exactly_and_absent_parts_cost_nothing():
    rate = cost_rate_wanted("*", "USD", {"hardware_per_hour": "2.50", "power_watts": 700})
    assert (rate.hardware_per_hour, rate.power_watts, rate.pue) == (Decimal("2.50"), 700, 1)
    for numbers in ({"pue": "0.9"}, {"watts": 1}, {"power_watts": 1.5}):
        with pytest.raises(Refused):
            cost_rate_wanted("*", "USD", numbers)


def test_what_an_engine_refused_costs_nothing_and_says_why():
    charged = charge("rejected", Tokens(100, 0, 0), a_price())
    assert (charged.amount_pico, charged.reason) == (0, "the engine refused the call")
    assert tokens_counted("rejected", Tokens(100, 0, 0)) == 0
