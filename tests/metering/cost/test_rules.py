"""Cost of device time and of tokens, against the worked examples, to the cent."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.metering.cost.rules import (
    WEIGHTS,
    Impossible,
    NoTokens,
    PerMillion,
    Possible,
    Volume,
    Weights,
    at_use,
    check_claim,
    cost_per_million,
    formula,
    round_half_up,
    rounded,
)

MONTH = Fraction(50_000)  # eight A100, all-in
VOLUME = Volume(300_000_000, 0, 90_000_000)  # 10 M in and 3 M out a day, 30 days
HALF_CACHED = Volume(300_000_000, 150_000_000, 90_000_000)


def alone(cost: Fraction, volume: Volume, weights: Weights = WEIGHTS) -> PerMillion | NoTokens:
    """Of one version."""
    return cost_per_million(cost, [(volume, weights)])


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
    price = alone(MONTH, VOLUME, Weights(output=Fraction(output_weight)))
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
    price = alone(MONTH, HALF_CACHED, Weights(output=Fraction(output_weight)))
    assert (cents(price.input), cents(price.cached_input), cents(price.output)) == expected


def test_all_cost_on_output():
    price = alone(MONTH, Volume(0, 0, 90_000_000))
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


@pytest.mark.parametrize(
    ("output_weight", "volume_factor", "cost_for_20"),
    [(3, "13.2", 3_800), (4, "15.2", 3_300), (5, "16.7", 3_000)],
)
def test_what_makes_output_20_at_a_weight(output_weight, volume_factor, cost_for_20):
    price = alone(MONTH, VOLUME, Weights(output=Fraction(output_weight)))
    assert str(round_half_up(price.output / 20, 1)) == volume_factor
    assert round_half_up(MONTH * 20 / price.output / 100, 0) * 100 == cost_for_20


@pytest.mark.parametrize(
    ("cost", "volume", "output_weight", "per_output"),
    [
        (MONTH, Volume(3_000_000_000, 0, 900_000_000), "2", "20.83"),
        (MONTH / 12, VOLUME, "2.5", "19.84"),
        (MONTH / 12, VOLUME, "4", "25.25"),
        (MONTH / 8, VOLUME, "2", "26.04"),
        (MONTH / 8, VOLUME, "3", "32.89"),
        (MONTH / 8, VOLUME, "4", "37.88"),
    ],
)
def test_output_when_a_premise_changes(cost, volume, output_weight, per_output):
    price = alone(cost, volume, Weights(output=Fraction(output_weight)))
    assert cents(price.output) == per_output


def test_one_card_gives_20_at_a_weight_of_1_35():
    claim = check_claim(MONTH / 8, VOLUME, Fraction(20))
    assert str(round_half_up(claim.output_weight, 2)) == "1.35"


@pytest.mark.parametrize(
    ("tokens_per_second", "used", "for_20", "at_30", "at_80"),
    [(16_434, "0.92", "13.9", "9.25", "3.47"), (46_162, "0.33", "4.9", "3.29", "1.23")],
)
def test_below_ten_percent_the_price_is_a_statement_about_idleness(
    tokens_per_second, used, for_20, at_30, at_80
):
    """Eight tuned cards, a weight of 4, ten tokens in to three out."""
    mean = Fraction(13_000_000, 86_400)
    practised = mean / tokens_per_second
    assert str(round_half_up(100 * practised, 2)) == used

    def output(use: str) -> Fraction:
        cost = at_use(MONTH, practised, Fraction(use))
        return alone(cost, VOLUME, Weights(output=Fraction(4))).output

    assert (cents(output("0.3")), cents(output("0.8"))) == (at_30, at_80)
    assert str(round_half_up(100 * output("1") / 20, 1)) == for_20


def test_a_claim_above_everything_is_refused_too():
    assert isinstance(check_claim(MONTH, VOLUME, Fraction(600)), Impossible)


def test_what_was_cached_counts_for_less_in_a_claim():
    price = alone(MONTH, HALF_CACHED, Weights(output=Fraction(3)))
    assert check_claim(MONTH, HALF_CACHED, price.output) == Possible(Fraction(3))


def test_no_tokens_is_a_reason_not_a_division_by_zero():
    assert alone(MONTH, Volume(0, 0, 0)) == NoTokens("no tokens were served in this time")
    assert rounded({}) == {}


def test_use_changes_the_cost_of_the_same_work_in_proportion():
    day = MONTH / 30
    assert at_use(day, Fraction(40, 192), Fraction(70, 100)) == day * 40 / 192 * 100 / 70
    assert at_use(day, Fraction(0), Fraction(70, 100)) is None
    assert at_use(day, None, Fraction(70, 100)) is None


HOURS = 1000  # so that tokens of an hour are whole


@pytest.mark.parametrize(
    ("rate", "output_per_second", "expected"),
    [  # eight cards, derated to half, 40 % use, 2 % not billable, 30 % over the sticker, 10:3
        ("2.50", 21_806, ("0.230", "0.922")),
        ("3.50", 31_712, ("0.222", "0.887")),
    ],
)
def test_a_rented_pool_by_what_it_can_do(rate, output_per_second, expected):
    cost = Fraction(rate) * 8 * Fraction("1.3") * HOURS
    output = output_per_second * 3600 * HOURS * 40 * 98 // 20_000
    volume = Volume(output * 10 // 3, 0, output)
    price = alone(cost, volume, Weights(output=Fraction(4)))
    assert tuple(str(round_half_up(cost, 3)) for cost in (price.input, price.output)) == expected


@pytest.mark.parametrize(
    ("rate", "output_per_second", "billable", "loaded", "sheet"),
    [("2.50", 21_806, "15.39", "1.69", "0.255"), ("3.50", 31_712, "22.38", "1.63", "0.245")],
)
def test_a_rented_pool_loaded_and_by_its_sheet(rate, output_per_second, billable, loaded, sheet):
    """All cost on output; the sheet knows no derating, no idle time and nothing on top."""
    cost, whole = Fraction(rate) * 8 * HOURS, output_per_second * 3600 * HOURS
    output = whole * 40 * 98 // 20_000
    assert cents(Fraction(output, HOURS * 10**6)) == billable
    price = alone(cost * Fraction("1.3"), Volume(0, 0, output))
    assert cents(price.output) == loaded
    price = alone(cost, Volume(0, 0, whole))
    assert str(round_half_up(price.output, 3)) == sheet


def test_the_formula_names_its_weights():
    assert "0.1 x cached input" in formula()
    assert "4 x output" in formula()


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


@given(cost=st.fractions(0, 10**9), fresh=tokens, cached=tokens, output=tokens)
def test_classes_sum_to_the_whole_cost_exactly(cost, fresh, cached, output):
    volume = Volume(fresh + cached, cached, output)
    match alone(cost, volume):
        case PerMillion() as price:
            again = price.input * fresh + price.cached_input * cached + price.output * output
            assert again / 10**6 == cost
        case NoTokens():
            assert not fresh + cached + output


@given(st.dictionaries(st.text(max_size=3), st.fractions(0, 10**6), max_size=6))
def test_rounded_parts_sum_to_the_rounded_whole(parts):
    assert sum(rounded(parts).values()) == round_half_up(sum(parts.values(), Fraction(0)), 2)


@given(
    cost=st.fractions(0, 10**9),
    served=st.lists(
        st.tuples(
            st.builds(
                lambda fresh, cached, out: Volume(fresh + cached, cached, out),
                tokens,
                tokens,
                tokens,
            ),
            st.builds(Weights, st.fractions(0, 1), st.fractions(1, 9)),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_versions_with_weights_of_their_own_sum_to_the_whole_cost_too(cost, served):
    volume = sum((volume for volume, _ in served), Volume(0, 0, 0))
    match cost_per_million(cost, served):
        case PerMillion() as price:
            uncached = volume.input_tokens - volume.cached_input_tokens
            again = (
                price.input * uncached
                + price.cached_input * volume.cached_input_tokens
                + price.output * volume.output_tokens
            )
            assert again / 10**6 == cost
        case NoTokens():
            assert not any(volume.weighted(weights) for volume, weights in served)
