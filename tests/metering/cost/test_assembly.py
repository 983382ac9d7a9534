"""Rows of an hour sum to its device time and to what that costs, whatever happened in it."""

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from control.metering.cost.allocation import IdlePolicy, PoolPolicy
from control.metering.cost.assembly import DeviceFacts, Slot, User, World, assemble
from control.metering.cost.lines import Line
from control.metering.cost.parts import RateFacts
from control.metering.cost.rules import round_half_up
from control.metering.rules import PICO

HOUR = 3_600_000_000
AT = datetime(2026, 11, 20, 13, tzinfo=UTC)
A, B = User(Line.BUSY, 1, 10), User(Line.BUSY, 2, 20)
FAILED = User(Line.FAILURE, None, None)
RATE = RateFacts(
    1,
    "*",
    "CNY",
    hardware_per_hour=Decimal("8.68"),
    power_watts=None,
    power_per_kwh=Decimal("0.75"),
    pue=Decimal("1.35"),
    engineering_per_hour=Decimal(1),
    valid_from=datetime(2026, 11, 1, tzinfo=UTC),
)


def a_device(lines: dict, period: int = HOUR, **changes) -> DeviceFacts:
    return DeviceFacts(
        **{"pool": "p", "name": "A100", "kind": "gpu"} | changes, period=period, lines=lines
    )


def a_world(*devices: DeviceFacts, calls=None, policy=None, reserved=None, rates=(RATE,)) -> World:
    return World(
        ends_at=AT,
        devices=devices,
        rates=rates,
        replicas={7: (70, 700), 8: (80, 800)},
        calls=calls or {},
        policies={"p": policy or PoolPolicy()},
        reserved=reserved or {},
    )


def by_line(world: World) -> dict[Line, int]:
    lines = {}
    for slot, cost in assemble(world).items():
        lines[slot.line] = lines.get(slot.line, 0) + cost.microseconds
    return lines


def test_busy_time_is_its_users_and_the_rest_is_on_lines():
    world = a_world(
        a_device({(Line.BUSY, 7): HOUR // 4, (Line.IDLE, 7): HOUR // 2}),
        a_device({(Line.FREE, 0): HOUR}),
        calls={7: {A: 2, B: 1, FAILED: 1}},
    )
    rows = assemble(world)
    time = {
        (slot.line, slot.tenant_id, slot.deployment_id): cost.microseconds
        for slot, cost in rows.items()
    }
    assert time == {
        (Line.BUSY, 1, 70): HOUR // 8,
        (Line.BUSY, 2, 70): HOUR // 16,
        (Line.FAILURE, None, 70): HOUR // 16,
        (Line.IDLE, None, 70): HOUR // 2,
        (Line.UNSEEN, None, None): HOUR // 4,
        (Line.FREE, None, None): HOUR,
    }


def test_a_replica_on_two_devices_takes_the_time_of_both():
    lines = {(Line.BUSY, 7): HOUR}
    rows = assemble(a_world(a_device(lines), a_device(lines), calls={7: {A: 1}}))
    assert [cost.microseconds for cost in rows.values()] == [2 * HOUR]


def test_busy_with_nobodys_call_is_the_platforms():
    assert by_line(a_world(a_device({(Line.BUSY, 7): HOUR}))) == {Line.PLATFORM: HOUR}


def test_power_is_told_by_how_it_is_known():
    assumed = assemble(a_world(a_device({(Line.FREE, 0): HOUR})))
    [row] = assumed.values()
    assert (row.assumed, row.power) == (HOUR, int(Decimal("0.303750") * PICO))
    measured = a_device({(Line.FREE, 0): HOUR}, millijoules=200_000, energy_microseconds=10**6)
    [row] = assemble(a_world(measured)).values()
    assert (row.assumed, row.power) == (0, int(Decimal("0.2025") * PICO))  # 200 W


def test_measured_energy_is_split_over_lines_by_their_time():
    """Cost by the hour is that of the device (CONVENTIONS 4.2): idle seconds have it too."""
    lines = {(Line.BUSY, 7): HOUR // 4, (Line.IDLE, 7): HOUR // 2, (Line.LOADING, 8): HOUR // 4}
    kilowatt_hour = 3_600_000_000  # millijoules
    device = a_device(lines, millijoules=kilowatt_hour // 5, energy_microseconds=HOUR)
    rows = assemble(a_world(device, calls={7: {A: 1}}, policy=PoolPolicy(IdlePolicy.UNALLOCATED)))
    power = {slot.line: row.power for slot, row in rows.items()}
    whole = int(Decimal("0.2") * Decimal("1.35") * Decimal("0.75") * PICO)
    assert power == {Line.BUSY: whole // 4, Line.IDLE: whole // 2, Line.LOADING: whole // 4}
    assert sum(power.values()) == whole


def test_a_device_without_a_rate_has_time_and_no_cost():
    rows = assemble(a_world(a_device({(Line.FREE, 0): HOUR}), rates=()))
    [(slot, cost)] = rows.items()
    assert (slot.currency, cost.microseconds, cost.whole) == ("", HOUR, 0)


def test_reserved_idle_is_a_row_of_whom_it_is_kept_for():
    world = a_world(
        a_device({(Line.BUSY, 7): HOUR // 4, (Line.IDLE, 7): HOUR * 3 // 4}),
        calls={7: {A: 1}},
        policy=PoolPolicy(IdlePolicy.RESERVED),
        reserved={B: 2},
    )
    rows = assemble(world)
    owed = rows[Slot("p", "CNY", Line.IDLE, None, None, 2, 20)]
    idle = rows[Slot("p", "CNY", Line.IDLE, 70, 700, None, None)]
    assert (owed.microseconds, owed.spread) == (0, idle.whole)
    assert idle.spread == -idle.whole


users = st.dictionaries(st.sampled_from([A, B, FAILED]), st.integers(0, 10**12), max_size=3)
keys = st.tuples(
    st.sampled_from([line for line in Line if line is not Line.UNSEEN]),
    st.sampled_from([0, 7, 8, 9]),
)
devices = st.builds(
    a_device,
    st.dictionaries(keys, st.integers(0, HOUR // 8), max_size=6),
    millijoules=st.integers(0, 10**9),
    energy_microseconds=st.integers(0, HOUR),
    pool=st.sampled_from(["p", "q"]),
)


@given(
    devices=st.lists(devices, max_size=4),
    calls=st.dictionaries(st.sampled_from([7, 8]), users, max_size=2),
    idle=st.sampled_from(list(IdlePolicy)),
    reserved=st.dictionaries(st.sampled_from([A, B]), st.integers(0, 8), max_size=2),
)
def test_any_hour_sums_to_its_device_time_and_its_cost(devices, calls, idle, reserved):
    policy = PoolPolicy(idle, Fraction(4, 5))
    world = a_world(*devices, calls=calls, policy=policy, reserved=reserved)
    rows = assemble(world).values()
    assert sum(row.microseconds for row in rows) == sum(device.period for device in devices)
    assert sum(row.spread for row in rows) == 0
    exact = sum(
        (
            (Fraction("8.68") + 1 + watts(device) * Fraction("1.35") * Fraction("0.75") / 1000)
            * device.period
            / HOUR
            for device in devices
        ),
        Fraction(0),
    )
    parts = 3 * 2  # each part of each pool is rounded once
    assert abs(sum(row.whole for row in rows) - round_half_up(exact * PICO, 0)) <= parts


def watts(device: DeviceFacts) -> Fraction:
    measured = device.measured_watts
    return Fraction(300) if measured is None else measured
