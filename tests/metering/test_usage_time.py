"""Device time is added up by hour, and what nobody saw is not counted."""

from datetime import UTC, datetime, timedelta

import pytest

from control.metering.usage_time import UseMeter, add_use, held_devices
from control.models import Deployment, Device, Node, Replica, ReplicaUse, Reservation

START = datetime(2026, 11, 20, 12, 59, 58, tzinfo=UTC)


@pytest.fixture
def replica(house) -> Replica:
    deployment = Deployment.objects.create(name="gemma", version=house.version)
    return Replica.objects.create(deployment=deployment, generation=1, version=house.version)


def uses() -> list[tuple]:
    rows = ReplicaUse.objects.order_by("hour")
    return list(rows.values_list("hour__hour", "device_seconds", "busy_seconds"))


def test_use_of_an_hour_adds_up(replica):
    add_use(replica.pk, START, 10.0, 4.0)
    add_use(replica.pk, START + timedelta(seconds=1), 5.0, 9.0)
    assert uses() == [(12, 15.0, 9.0)]


def test_a_second_at_a_time_is_split_at_the_hour(replica):
    meter = UseMeter()
    for second in range(6):
        meter.note(replica.pk, 0.5, 0.5 * (second > 3), START + timedelta(seconds=second))
    meter.flush(START, now=True)
    assert uses() == [(12, 1.0, 0.0), (13, 1.5, 0.5)]


def test_what_nobody_saw_is_not_counted(replica):
    meter = UseMeter()
    for second in (0, 1, 600, 601):
        meter.note(replica.pk, 1, True, START + timedelta(seconds=second))
    meter.keep_only(set())
    meter.note(replica.pk, 1, True, START + timedelta(seconds=602))
    meter.flush(START, now=True)
    assert sum(seconds for _, seconds, _ in uses()) == 2.0


def test_it_is_written_every_ten_seconds_and_once(replica):
    meter = UseMeter()
    for second in range(10):
        at = START + timedelta(seconds=second)
        meter.note(replica.pk, 1, False, at)
        meter.flush(at)
    assert uses() == []
    meter.flush(START + timedelta(seconds=10))
    meter.flush(START + timedelta(seconds=30))
    assert sum(seconds for _, seconds, _ in uses()) == 9.0


def test_a_device_is_split_among_those_that_hold_it(replica, house):
    other = Replica.objects.create(deployment=replica.deployment, generation=2)
    node = Node.objects.create(name="n1", identity="x")
    for index, bookings in enumerate([{replica: (0, 60), other: (60, 80)}, {replica: (0, 10)}]):
        device = Device.objects.create(
            node=node, uuid=f"GPU-{index}", kind="gpu", name="H200", memory_total_bytes=100
        )
        for holder, memory in bookings.items():
            Reservation.objects.create(device=device, replica=holder, memory=memory)
    gone = Replica.objects.create(deployment=replica.deployment, generation=3)
    Reservation.objects.create(device=device, replica=gone, memory=(10, 20), state="released")
    assert held_devices(node.pk) == {replica.pk: 1.75, other.pk: 0.25}
    assert held_devices(0) == {}
