"""What a device costs an hour, in its parts: hardware, power, engineering. Exact fractions."""

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

HOURS_PER_MONTH = 720  # of 30 days: by it what is paid by the month comes to an hour
ASSUMED_WATTS = 300  # of a card whose energy is neither measured nor named
GPU = "gpu"


class Draw(StrEnum):
    """How it is known what a device draws."""

    MEASURED = "measured"
    LOAD_FACTOR = "load factor"
    ASSUMED = "assumed"


@dataclass(frozen=True)
class RateFacts:
    """What one device costs, by a glob on its name, from an instant on."""

    id: int
    device: str
    currency: str
    hardware_per_hour: Decimal
    power_watts: Decimal | None  # None: not named
    power_per_kwh: Decimal
    pue: Decimal
    engineering_per_hour: Decimal
    valid_from: datetime
    pool: str = ""  # empty: of every pool
    price: Decimal = Decimal(0)
    residual: Decimal = Decimal(0)
    months: int = 0  # over which an owned device is written off; 0: rented
    finance_per_month: Decimal = Decimal(0)
    load_factor: Decimal = Decimal(1)
    host_watts: Decimal = Decimal(0)
    engineering_per_month: Decimal = Decimal(0)


@dataclass(frozen=True)
class Parts:
    """A cost by what it is paid for."""

    hardware: Fraction = Fraction(0)
    power: Fraction = Fraction(0)
    engineering: Fraction = Fraction(0)

    @property
    def whole(self) -> Fraction:
        return self.hardware + self.power + self.engineering

    def times(self, factor: Fraction) -> "Parts":
        return Parts(self.hardware * factor, self.power * factor, self.engineering * factor)

    def __add__(self, other: "Parts") -> "Parts":
        return Parts(
            self.hardware + other.hardware,
            self.power + other.power,
            self.engineering + other.engineering,
        )


@dataclass(frozen=True)
class HourCost:
    """Of one device in one hour, and what its power was told by."""

    parts: Parts
    currency: str
    draw: Draw
    watts: Fraction  # of the device alone, without its host


def rate_in_force(
    rates: Iterable[RateFacts], device: str, at: datetime, pool: str = ""
) -> RateFacts | None:
    """One of the pool before one of all; the longest glob on the name; its newest entry by then."""
    fitting = [
        rate
        for rate in rates
        if rate.valid_from <= at
        and rate.pool in ("", pool)
        and fnmatch.fnmatchcase(device.lower(), rate.device.lower())
    ]

    def rank(rate: RateFacts) -> tuple:
        return (bool(rate.pool), len(rate.device), rate.valid_from, rate.id)

    return max(fitting, key=rank, default=None)


def hardware_per_hour(rate: RateFacts) -> Fraction:
    """Owned: (price - residual) / months + finance, by the hour. Rented: the rate."""
    if not rate.months:
        return Fraction(rate.hardware_per_hour)
    written_off = (Fraction(rate.price) - Fraction(rate.residual)) / rate.months
    return (written_off + Fraction(rate.finance_per_month)) / HOURS_PER_MONTH


def power_per_hour(rate: RateFacts, watts: Fraction, draw: Draw) -> Fraction:
    """The host's part is added before PUE: the room cools it too."""
    host = Fraction(rate.host_watts)
    if draw is Draw.LOAD_FACTOR:
        host *= Fraction(rate.load_factor)
    return (watts + host) / 1000 * Fraction(rate.pue) * Fraction(rate.power_per_kwh)


def watts_of(rate: RateFacts, kind: str, measured: Fraction | None) -> tuple[Fraction, Draw]:
    """Its energy where it was measured, else what is named at its load, else what a card draws."""
    if measured is not None:
        return measured, Draw.MEASURED
    if rate.power_watts is not None:
        return Fraction(rate.power_watts) * Fraction(rate.load_factor), Draw.LOAD_FACTOR
    return Fraction(ASSUMED_WATTS if kind == GPU else 0), Draw.ASSUMED


def engineering_per_hour(rate: RateFacts) -> Fraction:
    by_month = Fraction(rate.engineering_per_month) / HOURS_PER_MONTH
    return Fraction(rate.engineering_per_hour) + by_month


def cost_per_device_hour(
    rate: RateFacts, kind: str = GPU, measured_watts: Fraction | None = None
) -> HourCost:
    watts, draw = watts_of(rate, kind, measured_watts)
    parts = Parts(
        hardware_per_hour(rate), power_per_hour(rate, watts, draw), engineering_per_hour(rate)
    )
    return HourCost(parts, rate.currency, draw, watts)
