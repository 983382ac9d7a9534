"""Each second of a device is on a line, by the hour; what nobody saw is on none."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import DatabaseError

from control.metering.cost.lines import Holder
from control.metering.usage_time import DeviceSeen, UseMeter, look
from control.models import Deployment, Device, DeviceHour, DeviceUse, Node, Replica, Reservation
from control.states import ReplicaState

START = datetime(2026, 11, 20, 12, 59, 58, tzinfo=UTC)


def a_device(busy: float | None = None, *, joules=None, **changes) -> DeviceSeen:
    holders = () if busy is None else (Holder(7, ReplicaState.READY, 100, busy),)
    values = {"uuid": "GPU-1", "name": "H200", "kind": "gpu", "node": "n1", "pool": "default"}
    return DeviceSeen(**values | changes, joules=joules, holders=holders)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def uses() -> list[tuple]:
    rows = DeviceUse.objects.order_by("hour", "line")
    return list(rows.values_list("hour__hour", "line", "replica_id", "microseconds"))


@pytest.mark.django_db
def test_a_second_at_a_time_is_split_at_the_hour():
    meter = UseMeter()
    for second in range(6):
        meter.note(a_device(0.5 * (second > 3)), after(second))
    meter.flush(START, now=True)
    assert uses() == [
        (12, "idle", 7, 2_000_000),
        (13, "busy", 7, 1_000_000),
        (13, "idle", 7, 2_000_000),
    ]
    rows = DeviceHour.objects.order_by("hour").values_list("first_at", "last_at", "pool")
    assert list(rows) == [
        (START, after(2), "default"),
        (after(2), after(5), "default"),
    ]


@pytest.mark.django_db
def test_what_nobody_saw_is_on_no_line_but_between_two_instants():
    meter = UseMeter()
    for second in (0, 1, 600, 601):
        meter.note(a_device(), after(second))
    meter.keep_only(set())
    meter.note(a_device(), after(602))
    meter.flush(START, now=True)
    assert sum(row[-1] for row in uses()) == 2_000_000
    assert {row[1] for row in uses()} == {"free"}
    assert DeviceHour.objects.latest("hour").last_at == after(602)


@pytest.mark.django_db
def test_a_device_in_quarantine_or_out_of_order_is_not_free():
    meter = UseMeter()
    for second in range(2):
        meter.note(a_device(out_of_order=True), after(second))
    meter.flush(START, now=True)
    assert uses() == [(12, "quarantine", 0, 1_000_000)]


@pytest.mark.django_db
def test_it_is_written_every_ten_seconds_and_adds_up():
    meter = UseMeter()
    for second in range(10):
        meter.note(a_device(0.0), after(second))
        meter.flush(after(second))
    assert uses() == []
    meter.flush(after(10))
    meter.flush(after(30))
    assert sum(row[-1] for row in uses()) == 9_000_000
    meter.note(a_device(0.0), after(31))
    meter.flush(after(41))
    assert sum(row[-1] for row in uses()) == 31_000_000


@pytest.mark.django_db
def test_what_cannot_be_written_is_kept_for_the_next_time():
    meter = UseMeter()
    bad = "x" * 200
    for second in range(2):
        meter.note(a_device(0.0, pool=bad), after(second))
    with pytest.raises(DatabaseError):
        meter.flush(START, now=True)
    meter.note(a_device(0.0), after(2))  # its pool has a name that fits
    meter.flush(START, now=True)
    assert sum(row[-1] for row in uses()) == 2_000_000


@pytest.mark.django_db
def test_energy_is_what_the_counter_moved_and_never_backwards():
    meter = UseMeter()
    for second, joules in enumerate((1000.0, 1350.0, 1700.5, 2.0, 300.0, None)):
        meter.note(a_device(0.0, joules=joules), after(second))
    meter.flush(START, now=True)
    rows = DeviceHour.objects.order_by("hour").values_list("millijoules", "energy_microseconds")
    # 350 J, 350.5 J; the driver started anew; 298 J
    assert list(rows) == [(700_500, 2_000_000), (298_000, 1_000_000)]


def test_a_node_is_seen_with_all_its_devices_and_who_holds_them(house):
    deployment = Deployment.objects.create(name="gemma", version=house.version)
    one = Replica.objects.create(deployment=deployment, generation=1, state="ready")
    other = Replica.objects.create(deployment=deployment, generation=2, state="loading")
    node = Node.objects.create(name="n1", identity="x", pool="lab")
    held = [{one: (0, 60), other: (60, 80)}, {one: (0, 10)}, {}]
    for index, bookings in enumerate(held):
        device = Device.objects.create(
            node=node, uuid=f"GPU-{index}", kind="gpu", name="H200", memory_total_bytes=100
        )
        for holder, memory in bookings.items():
            Reservation.objects.create(device=device, replica=holder, memory=memory)
    Reservation.objects.create(device=device, replica=one, memory=(10, 20), state="released")
    Device.objects.create(
        node=node, uuid="GPU-gone", kind="gpu", name="H200", memory_total_bytes=100
    )
    Device.objects.filter(uuid="GPU-2").update(quarantined_at=START)
    joules = {"GPU-0": 5.0, "GPU-1": None, "GPU-2": None}
    seen = look(node, joules, {one.pk: 0.25, other.pk: 0.0}.get)
    assert [(device.uuid, device.pool, device.out_of_order) for device in seen] == [
        ("GPU-0", "lab", False),
        ("GPU-1", "lab", False),
        ("GPU-2", "lab", True),
    ]
    assert seen[0].holders == (
        Holder(one.pk, ReplicaState.READY, 60, 0.25),
        Holder(other.pk, ReplicaState.LOADING, 20, 0.0),
    )
    assert (seen[0].joules, seen[1].holders[0].memory_bytes, seen[2].holders) == (5.0, 10, ())


def test_a_card_in_slices_is_its_slices(house):
    node = Node.objects.create(name="n1", identity="x")
    for uuid, parent in (("GPU-1", ""), ("MIG-1", "GPU-1"), ("MIG-2", "GPU-1")):
        Device.objects.create(
            node=node,
            uuid=uuid,
            kind="gpu",
            name="H200",
            memory_total_bytes=100,
            parent_uuid=parent,
        )
    seen = look(node, dict.fromkeys(("GPU-1", "MIG-1", "MIG-2")), {}.get)
    assert [device.uuid for device in seen] == ["MIG-1", "MIG-2"]
