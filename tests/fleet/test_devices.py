"""Readings of devices in the database: what others use, what cannot be read."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from control.fleet import devices
from control.fleet.nodes import facts
from control.models import Device, Node
from control.placement import books
from engines.spec import DeviceLink, GpuReading
from tests.fleet.rows import a_node

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
CARD = GpuReading("GPU-1", 0, "gpu", "H1", 80, 20, 0.5, 300.0, 60.0, processes=((7, 30), (9, None)))
LOST = "NVML: GPU is lost"


@pytest.fixture
def node(db):
    return a_node(at=AT)


def record(node, *readings, pids=(), at=AT):
    devices.Recorder(node).record(list(readings), set(pids), at)


def of(uuid):
    [node] = facts.nodes()
    return next(device for device in node.devices if device.uuid == uuid)


def test_p01_memory_of_other_processes_is_told_apart_and_counted(node):
    record(node, replace(CARD, processes=((7, 30), (8, 20), (9, 10))), pids={7, 1000})
    card = Device.objects.get()
    assert (card.memory_total_bytes, card.memory_free_bytes, card.foreign_bytes) == (80, 20, 30)
    assert card.foreign_pids == [8, 9]


@pytest.mark.parametrize(
    ("processes", "ours", "foreign_bytes"),
    [
        ((), set(), 60),
        (((7, 60),), {7}, 0),
        (((7, None),), {7}, 0),  # the driver does not say how much: all that others do not
        (((7, None), (8, 25)), {7}, 25),
        (((7, None), (8, None)), {7}, 0),
        (((8, None),), {7}, 60),
    ],
)
def test_p01_what_the_driver_does_not_say_is_never_booked_twice(
    node, processes, ours, foreign_bytes
):
    record(node, replace(CARD, processes=processes), pids=ours)
    assert Device.objects.get().foreign_bytes == foreign_bytes


def test_e08_unknown_memory_is_not_zero_memory(node):
    record(node, replace(CARD, memory_free_bytes=None))
    card = Device.objects.get()
    assert card.memory_free_bytes is None
    assert card.foreign_bytes == 0
    [sample] = devices.samples(node, [replace(CARD, memory_free_bytes=None)], AT)
    assert sample.memory_used_bytes is None


def test_health_is_kept_as_the_driver_says_it_and_none_stays_none(node):
    links = (DeviceLink("GPU-2", "nvlink"),)
    record(node, replace(CARD, ecc_uncorrected=2, energy_joules=7.5, links=links, driver="580"))
    card = of("GPU-1")
    assert (card.ecc_uncorrected, card.ecc_corrected, card.energy_joules) == (2, None, 7.5)
    assert (card.utilisation_ratio, card.power_watts, card.links) == (0.5, 300.0, links)
    assert facts.node("n1").driver == "580"
    record(node, replace(CARD, utilisation_ratio=None, power_watts=None))
    assert (of("GPU-1").utilisation_ratio, of("GPU-1").power_watts) == (None, None)


def test_critical_errors_are_counted(node):
    record(node, CARD)
    record(node, replace(CARD, xids=(31, 79)), at=AT + timedelta(seconds=9))
    record(node, CARD)
    card = of("GPU-1")
    assert (card.xid_errors, card.xid_last) == (2, 79)
    assert card.xid_at == AT + timedelta(seconds=9)


def test_e08_a_failed_reading_keeps_the_last_inventory_as_stale(node):
    record(node, CARD)
    broken = replace(CARD, memory_total_bytes=0, error="driver and library differ")
    record(node, broken, at=datetime(2026, 11, 2, tzinfo=UTC))
    card = Device.objects.get()
    assert (card.memory_total_bytes, card.read_at) == (80, AT)
    assert "differ" in card.error
    record(node, CARD)
    assert Device.objects.get().error == ""


def test_e08_a_lost_card_is_marked_and_takes_nothing(node):
    other = replace(CARD, uuid="GPU-2", index=1)
    record(node, CARD, other)
    record(node, replace(CARD, error=LOST, lost=True), other)
    assert (of("GPU-1").lost, of("GPU-2").lost) == (True, False)
    [seen] = books.nodes(AT)
    assert [bool(device.blocked) for device in seen.devices] == [True, False]
    record(node, CARD, other)
    assert not of("GPU-1").lost


def test_e08_a_card_lost_before_this_worker_started_is_the_one_of_its_place(node):
    record(node, CARD)
    unread = replace(CARD, uuid="gpu-at-0", memory_total_bytes=0, error=LOST, lost=True)
    record(node, *devices.named([unread], node))
    card = Device.objects.get()
    assert (card.uuid, card.lost, card.error) == ("GPU-1", True, LOST)


def test_e08_a_card_that_was_never_readable_is_shown_until_it_tells_its_name(node):
    unread = replace(CARD, uuid="gpu-at-0", memory_total_bytes=0, error=LOST, lost=True)
    record(node, *devices.named([unread], node))
    assert (of("gpu-at-0@n1").lost, of("gpu-at-0@n1").memory_total_bytes) == (True, 0)
    record(node, CARD)
    assert [device.uuid for device in Device.objects.all()] == ["GPU-1"]


def test_a_device_that_is_no_longer_there_says_so(node):
    record(node, CARD)
    record(node)
    assert "no longer" in Device.objects.get().error


def test_a_card_split_into_slices_says_so_and_takes_nothing(node):
    record(node, CARD)
    slices = [replace(CARD, uuid=f"MIG-{n}", parent_uuid="GPU-1") for n in (1, 2)]
    record(node, *slices)
    assert of("GPU-1").error == devices.SLICED
    [seen] = books.nodes(AT)
    assert {d.uuid for d in seen.devices if not d.blocked} == {"MIG-1", "MIG-2"}
    assert [d.is_slice for d in sorted(seen.devices, key=lambda d: d.uuid)] == [False, True, True]
    record(node, CARD)
    assert {d.uuid: bool(d.error) for d in facts.node("n1").devices} == {
        "GPU-1": False,
        "MIG-1": True,
        "MIG-2": True,
    }


def test_a_card_that_was_put_into_another_host_is_that_hosts(node):
    record(node, CARD)
    record(a_node("n2", at=AT), CARD)
    assert Device.objects.get().node.name == "n2"


def test_a_quarantined_device_takes_nothing_and_says_why(node):
    record(node, CARD)
    Device.objects.update(quarantined_at=AT, quarantine_reason="two versions died on it")
    record(node, CARD)
    [seen] = books.nodes(AT)
    assert seen.devices[0].blocked == "is quarantined: two versions died on it"


def test_the_memory_of_a_host_is_its_nodes_device(node):
    [reading] = devices.named([replace(CARD, uuid="cpu-abc", kind="cpu")], node)
    assert reading.uuid == "cpu-n1"


@pytest.mark.parametrize(
    ("change", "seconds", "written"),
    [
        ({}, 1, False),
        ({}, 5, True),
        ({"power_watts": 9.0}, 1, False),
        ({"memory_free_bytes": 20 - devices.MOVED_BYTES}, 1, True),
        ({"processes": ((7, 30),)}, 1, True),
        ({"error": LOST, "lost": True}, 1, True),
        ({"xids": (79,)}, 1, True),
        ({"links": (DeviceLink("GPU-2", "nvlink"),)}, 1, True),
    ],
)
def test_rows_are_written_when_something_moved_else_now_and_then(node, change, seconds, written):
    recorder = devices.Recorder(node)
    assert recorder.record([CARD], set(), AT)
    later = AT + timedelta(seconds=seconds)
    assert recorder.record([replace(CARD, **change)], set(), later) is written


def test_eight_cards_are_written_in_a_few_statements(node, django_assert_max_num_queries):
    cards = [replace(CARD, uuid=f"GPU-{n}", index=n) for n in range(8)]
    with django_assert_max_num_queries(5):
        record(node, *cards)
    assert Node.objects.get().devices.count() == 8


def test_an_error_of_a_program_does_not_cover_the_cards_own_before_it(node):
    record(node, CARD, at=AT)
    record(node, replace(CARD, xids=(48, 45)), at=AT)
    assert Device.objects.get().xid_last == 48
    record(node, replace(CARD, xids=(45,)), at=AT + timedelta(seconds=1))
    assert (Device.objects.get().xid_last, Device.objects.get().xid_errors) == (48, 3)
    record(node, replace(CARD, xids=(31,)), at=AT + timedelta(hours=2))
    assert Device.objects.get().xid_last == 31
