"""Whose a device's busy time was, and who pays for what nobody used. Whole numbers, exact sums."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TypeVar

from control.metering.cost.lines import whole_parts

Key = TypeVar("Key")


class IdlePolicy(StrEnum):
    """Who pays for the device time of a pool that no tenant used."""

    PROPORTIONAL = "proportional"  # tenants, by what they used
    RESERVED = "reserved"  # projects, by the devices that they are guaranteed
    UNALLOCATED = "unallocated"  # the operator; tenants pay the cost at practical use


@dataclass(frozen=True)
class PoolPolicy:
    idle: IdlePolicy = IdlePolicy.PROPORTIONAL
    practical_ratio: Fraction = Fraction(1)


@dataclass(frozen=True)
class Spread:
    """What of the cost that no tenant used goes to whom, and what stays with the operator."""

    to: dict
    unallocated: int


def allocate_busy(busy_microseconds: int, weights: Mapping[Key, int]) -> dict[Key, int]:
    """A replica's busy time of one window among those that used it."""
    return whole_parts(busy_microseconds, weights)


def spread(
    overhead_pico: int,
    used_pico: Mapping[Key, int],
    reserved: Mapping[Key, int],
    policy: PoolPolicy,
) -> Spread:
    """The cost of a pool's time that no tenant used. The parts and the rest sum to it."""
    match policy.idle:
        case IdlePolicy.PROPORTIONAL:
            to = whole_parts(overhead_pico, used_pico)
        case IdlePolicy.RESERVED:
            to = whole_parts(overhead_pico, reserved)
        case IdlePolicy.UNALLOCATED:
            used = sum(used_pico.values())
            standard = Fraction(used) / policy.practical_ratio - used
            to = whole_parts(min(overhead_pico, int(standard)), used_pico)
    return Spread(to, overhead_pico - sum(to.values()))
