"""One hour's device time and its cost, given to calls and lines: sums hold to the pico-unit."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import NamedTuple

from control.metering.cost.allocation import PoolPolicy, allocate_busy, spread
from control.metering.cost.lines import NOBODY, Line, unseen_microseconds, whole_parts
from control.metering.cost.parts import Draw, Parts, RateFacts, cost_per_device_hour, rate_in_force
from control.metering.cost.rules import round_half_up
from control.metering.rules import PICO

HOUR_MICROSECONDS = 3_600_000_000


@dataclass(frozen=True)
class DeviceFacts:
    """One device in one hour: `period` is how much of it the device was there."""

    pool: str
    name: str
    kind: str
    period: int
    lines: Mapping[tuple[Line, int], int]
    millijoules: int = 0
    energy_microseconds: int = 0

    @property
    def measured_watts(self) -> Fraction | None:
        if not self.energy_microseconds:
            return None
        return Fraction(self.millijoules * 1000, self.energy_microseconds)


class User(NamedTuple):
    """Whose busy time it was; of work that failed nobody's."""

    line: Line
    tenant_id: int | None
    project_id: int | None


@dataclass(frozen=True)
class World:
    """What an hour's cost is made of."""

    ends_at: datetime  # a rate named within the hour holds for all of it
    devices: Sequence[DeviceFacts]
    rates: Sequence[RateFacts]
    replicas: Mapping[int, tuple[int | None, int | None]]  # → deployment, version
    calls: Mapping[int, Mapping[User, int]]  # replica → weights of who used it
    policies: Mapping[str, PoolPolicy]
    reserved: Mapping[User, int]  # devices that projects are guaranteed


class Slot(NamedTuple):
    """What one row is of."""

    pool: str
    currency: str
    line: Line
    deployment_id: int | None
    version_id: int | None
    tenant_id: int | None
    project_id: int | None


@dataclass
class Cost:
    microseconds: int = 0
    assumed: int = 0
    hardware: int = 0
    power: int = 0
    engineering: int = 0
    spread: int = 0

    @property
    def whole(self) -> int:
        return self.hardware + self.power + self.engineering


@dataclass
class _Time:
    """Before it is rounded."""

    microseconds: int = 0
    assumed: int = 0
    parts: Parts = field(default_factory=Parts)

    def add(self, microseconds: int, assumed: int, parts: Parts) -> None:
        self.microseconds += microseconds
        self.assumed += assumed
        self.parts += parts


def assemble(world: World) -> dict[Slot, Cost]:
    """Rows whose microseconds sum to the devices' time and whose cost sums to what that costs."""
    slots: dict[Slot, _Time] = defaultdict(_Time)
    for (pool, currency, line, replica_id), time in _held(world).items():
        for user, share in _users(line, replica_id, time.microseconds, world).items():
            part = Fraction(share, time.microseconds or 1)
            slot = Slot(
                *(pool, currency, user.line),
                *world.replicas.get(replica_id, (None, None)),
                *(user.tenant_id, user.project_id),
            )
            slots[slot].add(share, share if time.assumed else 0, time.parts.times(part))
    rows: dict[Slot, Cost] = {}
    for pool, currency in sorted({(slot.pool, slot.currency) for slot in slots}):
        of_pool = {
            slot: slots[slot] for slot in sorted(slots, key=str) if slot[:2] == (pool, currency)
        }
        costs = _rounded(of_pool)
        _spread(costs, world.policies.get(pool, PoolPolicy()), world.reserved, (pool, currency))
        rows |= costs
    return rows


def _held(world: World) -> dict[tuple[str, str, Line, int], _Time]:
    """Device time by line and launch, at its rate; what was not seen is a line too."""
    held: dict[tuple[str, str, Line, int], _Time] = defaultdict(_Time)
    for device in world.devices:
        rate = rate_in_force(world.rates, device.name, world.ends_at, device.pool)
        hour = rate and cost_per_device_hour(rate, device.kind, device.measured_watts)
        parts = hour.parts if hour else Parts()
        is_assumed = hour is not None and hour.draw is Draw.ASSUMED
        lines = dict(device.lines)
        if unseen := unseen_microseconds(device.period, lines.values()):
            lines[Line.UNSEEN, NOBODY] = unseen
        for (line, replica_id), time in lines.items():
            key = (device.pool, hour.currency if hour else "", line, replica_id)
            cost = parts.times(Fraction(time, HOUR_MICROSECONDS))
            held[key].add(time, time if is_assumed else 0, cost)
    return held


def _users(line: Line, replica_id: int, time: int, world: World) -> dict[User, int]:
    if line is not Line.BUSY:
        return {User(line, None, None): time}
    shares = allocate_busy(time, world.calls.get(replica_id, {}))
    return shares or {User(Line.PLATFORM, None, None): time}


def _rounded(slots: Mapping[Slot, _Time]) -> dict[Slot, Cost]:
    """To the pico-unit; each part's rows sum to the rounded part."""
    costs = {slot: Cost(time.microseconds, time.assumed) for slot, time in slots.items()}
    for name in ("hardware", "power", "engineering"):
        exact = {slot: getattr(time.parts, name) for slot, time in slots.items()}
        whole = int(round_half_up(sum(exact.values(), Fraction(0)) * PICO, 0))
        for slot, part in whole_parts(whole, exact).items():
            setattr(costs[slot], name, part)
    return costs


def _spread(
    costs: dict[Slot, Cost],
    policy: PoolPolicy,
    reserved: Mapping[User, int],
    of: tuple[str, str],
) -> None:
    """Moves what nobody used to those that pay for it; what is moved sums to zero."""
    used = {slot: cost.whole for slot, cost in costs.items() if slot.line is Line.BUSY}
    unused = {slot: cost.whole for slot, cost in costs.items() if slot.line is not Line.BUSY}
    owed = {Slot(*of, Line.IDLE, None, None, *user[1:]): part for user, part in reserved.items()}
    paid = spread(sum(unused.values()), used, owed, policy)
    for slot, part in paid.to.items():
        costs.setdefault(slot, Cost()).spread += part
    for slot, part in whole_parts(sum(paid.to.values()), unused).items():
        costs[slot].spread -= part
