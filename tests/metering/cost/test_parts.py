"""A device hour in its parts: owned or rented, measured, given or assumed, to the cent."""

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import pytest

from control.metering.cost.parts import (
    ASSUMED_WATTS,
    Draw,
    Parts,
    RateFacts,
    cost_per_device_hour,
    hardware_per_hour,
    rate_in_force,
)
from control.metering.cost.rules import round_half_up

CARDS, MONTH_HOURS = 8, 720


def a_rate(device: str = "*", number: int = 1, day: int = 1, **changes) -> RateFacts:
    values = {
        "hardware_per_hour": Decimal("2.50"),
        "power_watts": Decimal(700),
        "power_per_kwh": Decimal("0.12"),
        "pue": Decimal("1.35"),
        "engineering_per_hour": Decimal("0.40"),
    } | changes
    return RateFacts(
        number, device, "USD", valid_from=datetime(2026, 11, day, tzinfo=UTC), **values
    )


def an_owned_card() -> RateFacts:
    """One of eight A100 of a server of 1.2 M, 15 % of it left after three years."""
    return a_rate(
        hardware_per_hour=Decimal(0),
        price=Decimal(150_000),
        residual=Decimal(22_500),
        months=36,
        power_watts=Decimal(400),
        host_watts=Decimal(250),
        load_factor=Decimal("0.70"),
        power_per_kwh=Decimal("0.75"),
        engineering_per_hour=Decimal(0),
        engineering_per_month=Decimal("2376.625"),
    )


def cents(value: Fraction) -> str:
    return str(round_half_up(value, 2))


def test_a_rented_device_hour_is_its_rate_power_and_engineering():
    # 2.50 + 0.7 kW x 1.35 x 0.12 + 0.40
    hour = cost_per_device_hour(a_rate())
    assert hour.parts == Parts(Fraction("2.5"), Fraction("0.1134"), Fraction("0.4"))
    assert (hour.parts.whole, hour.currency) == (Fraction("3.0134"), "USD")


def test_the_parts_of_the_worked_pool_come_to_50_000_a_month():
    month = cost_per_device_hour(an_owned_card()).parts.times(Fraction(CARDS * MONTH_HOURS))
    assert [cents(part) for part in (month.hardware, month.power, month.engineering)] == [
        "28333.33",
        "2653.56",
        "19013.00",
    ]
    assert abs(month.whole - 50_000) < 1
    assert cents(month.whole / (CARDS * MONTH_HOURS)) == "8.68"


def test_finance_is_paid_beside_what_is_written_off():
    rate = a_rate(price=Decimal(36_000), months=36, finance_per_month=Decimal(80))
    assert hardware_per_hour(rate) == Fraction(1080, 720)


@pytest.mark.parametrize(
    ("watts", "measured", "kind", "expected"),
    [
        (Decimal(400), Fraction(350), "gpu", (350, Draw.MEASURED)),
        (Decimal(400), None, "gpu", (280, Draw.LOAD_FACTOR)),
        (None, Fraction(350), "gpu", (350, Draw.MEASURED)),
        (None, None, "gpu", (ASSUMED_WATTS, Draw.ASSUMED)),
        (None, None, "cpu", (0, Draw.ASSUMED)),
        (Decimal(0), None, "gpu", (0, Draw.LOAD_FACTOR)),
    ],
)
def test_power_is_measured_or_given_or_assumed(watts, measured, kind, expected):
    rate = a_rate(power_watts=watts, load_factor=Decimal("0.7"))
    hour = cost_per_device_hour(rate, kind, measured)
    assert (hour.watts, hour.draw) == expected


def test_a_card_draws_300_watts_where_nobody_says():
    hour = cost_per_device_hour(a_rate(power_watts=None))
    assert hour.parts.power == Fraction(300, 1000) * Fraction("1.35") * Fraction("0.12")


def test_the_host_is_added_before_pue():
    hour = cost_per_device_hour(a_rate(host_watts=Decimal(250)), "gpu", Fraction(350))
    assert hour.parts.power == Fraction(600, 1000) * Fraction("1.35") * Fraction("0.12")


def test_the_longest_glob_wins_then_the_newest_entry_begun():
    rates = [
        a_rate("*", 1),
        a_rate("NVIDIA H200*", 2),
        a_rate("NVIDIA*", 3),
        a_rate("NVIDIA H200*", 4, day=20),
        a_rate("NVIDIA H200*", 5, day=29),
    ]
    at = datetime(2026, 11, 21, tzinfo=UTC)
    assert rate_in_force(rates, "NVIDIA H200 NVL", at).id == 4
    assert rate_in_force(rates, "NVIDIA A100", at).id == 3
    assert rate_in_force(rates, "cpu", at).id == 1
    assert rate_in_force(rates[1:], "cpu", at) is None


def test_a_rate_of_a_pool_holds_before_one_of_all():
    rates = [a_rate("NVIDIA H200*", 1), a_rate("*", 2, pool="lab")]
    at = datetime(2026, 11, 21, tzinfo=UTC)
    assert rate_in_force(rates, "NVIDIA H200", at, "lab").id == 2
    assert rate_in_force(rates, "NVIDIA H200", at, "default").id == 1


def test_a_token_more_where_there_is_room_costs_its_power():
    rate = a_rate(power_per_kwh=Decimal("0.75"))
    power = cost_per_device_hour(rate, measured_watts=Fraction(5200)).parts.power
    assert str(round_half_up(power / (16_434 * 3600) * 10**6, 3)) == "0.089"
