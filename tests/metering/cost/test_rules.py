"""Cost of device time and of tokens, against the worked examples, to the cent."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.metering.cost.rules import (
    Impossible,
    NoTokens,
    PerMillion,
    Possible,
    Volume,
    Weights,
    allocate,
    at_use,
    capacity_per_million,
    check_claim,
    cost_per_million,
    device_shares,
    formula,
    margin_ratio,
    round_half_up,
    rounded,
    spent,
    total,
)

MONTH = Fraction(50_000)  # eight A100, all-in
VOLUME = Volume(300_000_000, 0, 90_000_000)  # 10 M in and 3 M out a day, 30 days
HALF_CACHED = Volume(300_000_000, 150_000_000, 90_000_000)
DEVICE_HOURS = 8 * 24 * 30


def cents(value: Fraction) -> str:
    return str(round_half_up(value, 2))


@pytest.mark.parametrize(
    ("output_weight", "per_input", "per_output"),
    [
        (1, "128.21", "128.21"),
        (2, "104.17", "208.33"),
        (3, "87.72", "263.16"),
        (4, "75.76", "303.03"),
        (5, "66.67", "333.33"),
        (8, "49.02", "392.16"),
    ],
)
def test_worked_example_without_caching(output_weight, per_input, per_output):
    price = cost_per_million(MONTH, VOLUME, Weights(output=Fraction(output_weight)))
    assert (cents(price.input), cents(price.output)) == (per_input, per_output)


@pytest.mark.parametrize(
    ("output_weight", "expected"),
    [
        (3, ("114.94", "11.49", "344.83")),
        (4, ("95.24", "9.52", "380.95")),
        (5, ("81.30", "8.13", "406.50")),
    ],
)
def test_worked_example_with_half_of_the_input_cached(output_weight, expected):
    price = cost_per_million(MONTH, HALF_CACHED, Weights(output=Fraction(output_weight)))
    assert (cents(price.input), cents(price.cached_input), cents(price.output)) == expected


def test_all_cost_on_output():
    price = cost_per_million(MONTH, Volume(0, 0, 90_000_000))
    assert cents(price.output) == "555.56"


def test_20_per_million_output_cannot_follow_from_these_inputs():
    claim = check_claim(MONTH, VOLUME, Fraction(20))
    assert isinstance(claim, Impossible)
    assert round_half_up(claim.output_weight, 3) == Decimal("0.124")
    assert "3.6 % of the cost" in claim.reason
    assert "8 times cheaper" in claim.reason


@pytest.mark.parametrize(
    ("cost", "volume", "claimed", "weight"),
    [
        (MONTH, Volume(3_000_000_000, 0, 900_000_000), "20", "1.9"),  # ten times the volume
        (MONTH / 12, VOLUME, "20", "2.5"),  # 50,000 a year
        (MONTH / 8, VOLUME, "26.0", "2.0"),  # one device would do
        (MONTH / 8, VOLUME, "32.9", "3.0"),
        (MONTH, VOLUME, "303.03", "4.0"),
    ],
)
def test_20_follows_only_when_a_premise_changes(cost, volume, claimed, weight):
    claim = check_claim(cost, volume, Fraction(claimed))
    assert isinstance(claim, Possible)
    assert str(round_half_up(claim.output_weight, 1)) == weight


def test_ten_times_the_volume_gives_20_at_a_weight_of_exactly_one_and_seven_eighths():
    ten_times = Volume(3_000_000_000, 0, 900_000_000)
    assert check_claim(MONTH, ten_times, Fraction(20)) == Possible(Fraction(15, 8))


def test_a_claim_above_everything_is_refused_too():
    assert isinstance(check_claim(MONTH, VOLUME, Fraction(600)), Impossible)


def test_tenants_of_a_day_sum_to_the_pools_cost():
    day = MONTH / 30
    hours = {"A": Fraction(16), "B": Fraction(22), "C": Fraction(2)}
    use = spent(Fraction(192 * 3600), sum(hours.values()) * 3600, day / 192)
    assert cents(use.utilisation_ratio * 100) == "20.83"
    assert cents(use.cost) == "1666.67"
    direct = allocate(use.busy_cost, hours)
    idle = allocate(use.idle_cost, hours)
    assert {name: cents(part) for name, part in direct.items()} == {
        "A": "138.89",
        "B": "190.97",
        "C": "17.36",
    }
    assert {name: cents(part) for name, part in idle.items()} == {
        "A": "527.78",
        "B": "725.69",
        "C": "65.97",
    }
    assert cents(use.idle_cost) == "1319.44"
    whole = rounded({name: direct[name] + idle[name] for name in hours})
    assert whole == {"A": Decimal("666.67"), "B": Decimal("916.67"), "C": Decimal("83.33")}
    assert sum(whole.values()) == Decimal("1666.67")


def test_no_tokens_is_a_reason_not_a_division_by_zero():
    assert cost_per_million(MONTH, Volume(0, 0, 0)) == NoTokens(
        "no tokens were served in this time"
    )
    assert spent(Fraction(0), Fraction(0), Fraction(3)).utilisation_ratio is None
    assert allocate(MONTH, {}) == {}
    assert rounded({}) == {}


def test_a_device_is_never_busier_than_it_is_there():
    use = spent(Fraction(3600), Fraction(3700), Fraction(2))
    assert (use.busy_seconds, use.idle_cost, use.utilisation_ratio) == (3600, 0, 1)


def test_use_changes_the_cost_of_the_same_work_in_proportion():
    day = MONTH / 30
    assert at_use(day, Fraction(40, 192), Fraction(70, 100)) == day * 40 / 192 * 100 / 70
    assert at_use(day, Fraction(0), Fraction(70, 100)) is None
    assert at_use(day, None, Fraction(70, 100)) is None


@pytest.mark.parametrize(
    ("rate", "output_per_second", "expected"),
    [  # eight cards, derated to half, 40 % use, 2 % not billable, 30 % over the sticker, 10:3
        ("2.50", 21_806, ("0.230", "0.922")),
        ("3.50", 31_712, ("0.222", "0.887")),
    ],
)
def test_a_rented_pool_by_what_it_can_do(rate, output_per_second, expected):
    per_hour = Fraction(rate) * 8 * Fraction("1.3")
    weights = Weights(output=Fraction(4))
    weighted = Fraction(output_per_second) / 2 * (Fraction(10, 3) + 4)
    price = capacity_per_million(per_hour, weighted, Fraction("0.40"), Fraction("0.98"), weights)
    assert tuple(str(round_half_up(cost, 3)) for cost in (price.input, price.output)) == expected


def test_the_formula_names_its_weights():
    assert "0.1 x cached input" in formula()
    assert "4 x output" in formula()


def test_margin_is_of_what_was_charged():
    assert margin_ratio(Fraction(4), Fraction(1)) == Fraction(3, 4)
    assert margin_ratio(Fraction(0), Fraction(1)) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.125", "0.13"),
        ("0.135", "0.14"),
        ("-0.125", "-0.13"),
        ("0.1249999", "0.12"),
        ("-0.001", "0.00"),
    ],
)
def test_rounding_is_half_up_away_from_zero(value, text):
    assert str(round_half_up(Fraction(value), 2)).replace("-0.00", "0.00") == text


tokens = st.integers(0, 10**12)
seconds = st.fractions(0, 10**7)


@given(cost=st.fractions(0, 10**9), fresh=tokens, cached=tokens, output=tokens)
def test_classes_sum_to_the_whole_cost_exactly(cost, fresh, cached, output):
    volume = Volume(fresh + cached, cached, output)
    match cost_per_million(cost, volume):
        case PerMillion() as price:
            again = price.input * fresh + price.cached_input * cached + price.output * output
            assert again / 10**6 == cost
        case NoTokens():
            assert not fresh + cached + output


@given(st.lists(st.tuples(seconds, seconds, st.fractions(0, 100)), max_size=5))
def test_busy_and_idle_sum_to_the_whole_over_any_devices(uses):
    whole = total(spent(*use) for use in uses)
    assert whole.busy_cost + whole.idle_cost == whole.cost
    assert whole.busy_seconds <= whole.device_seconds


@given(
    cost=st.fractions(0, 10**9),
    shares=st.dictionaries(st.text(max_size=3), st.fractions(0, 10**6), max_size=6),
)
def test_allocated_and_rounded_parts_sum_to_the_whole(cost, shares):
    parts = allocate(cost, shares)
    if parts:
        assert sum(parts.values()) == cost
        assert sum(rounded(parts).values()) == round_half_up(cost, 2)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 10**12)), max_size=12)
)
def test_shares_of_devices_in_use_sum_to_the_devices(bookings):
    assert sum(device_shares(bookings).values()) == len({device for _, device, _ in bookings})
