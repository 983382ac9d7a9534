"""Whose a device's busy time was, and who pays for what nobody used. Whole numbers, exact sums."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TypeVar

from control.metering.cost.lines import whole_parts
from control.metering.rules import ENDED_BY_THE_PLATFORM

Key = TypeVar("Key")


class IdlePolicy(StrEnum):
    """Who pays for the device time of a pool that no tenant used."""

    PROPORTIONAL = "proportional"  # tenants, by what they used
    RESERVED = "reserved"  # projects, by the devices that they are guaranteed
    UNALLOCATED = "unallocated"  # the operator; tenants pay the cost at practical use


@dataclass(frozen=True)
class CallTime:
    """One call on one replica: how long it ran there, and what of the KV cache it held."""

    microseconds: int
    kv_token_microseconds: int


@dataclass(frozen=True)
class PoolPolicy:
    idle: IdlePolicy = IdlePolicy.PROPORTIONAL
    practical_ratio: Fraction = Fraction(1)


@dataclass(frozen=True)
class Spread:
    """What of the cost that no tenant used goes to whom, and what stays with the operator."""

    to: dict
    unallocated: int


def kv_token_microseconds(input_tokens: int, output_tokens: int, microseconds: int) -> int:
    """The prompt is held all the time, an answer that grows evenly half of it."""
    return (2 * input_tokens + output_tokens) * microseconds // 2


def call_weights(calls: Mapping[Key, CallTime]) -> dict[Key, int]:
    """A call's share is the greater of that of the time and that of the cache it held.

    Request times overlap in a batch: shares mean something only beside the others of a window.
    Both shares are brought to one denominator, so that they stay whole numbers. The database does
    the same for an hour (`measured.WEIGHTS`); a test holds one against the other.
    """
    time = sum(call.microseconds for call in calls.values())
    cache = sum(call.kv_token_microseconds for call in calls.values())
    return {
        key: max(call.microseconds * (cache or 1), call.kv_token_microseconds * time)
        for key, call in calls.items()
    }


def allocate_busy(busy_microseconds: int, weights: Mapping[Key, int]) -> dict[Key, int]:
    """A replica's busy time of one window among those that used it."""
    return whole_parts(busy_microseconds, weights)


def is_failure(outcome: str, billed_tokens: int) -> bool:
    """Work for the failure line: the platform ended it and nobody is charged for it.

    What the caller caused (hanging up, reading too slowly) is the caller's, charged or not. The
    database says the same (`measured`).
    """
    return outcome in ENDED_BY_THE_PLATFORM and billed_tokens == 0


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
