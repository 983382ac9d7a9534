"""Readings of devices in the database: what others use, what cannot be read."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from control.fleet import devices
from control.models import Device
from engines.spec import GpuReading
from tests.fleet.rows import a_node

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
CARD = GpuReading("GPU-1", 0, "gpu", "H1", 80, 20, 0.5, 300.0, 60.0, processes=((7, 30), (9, None)))


@pytest.fixture
def node(db):
    return a_node(at=AT)


def test_p01_memory_of_other_processes_is_told_apart(node):
    ours = devices.used_by([CARD], {7, 9})
    devices.record(node, [CARD], ours, AT)
    card = Device.objects.get()
    assert (card.memory_total_bytes, card.memory_free_bytes, card.foreign_bytes) == (80, 20, 30)


def test_e08_unknown_memory_is_not_zero_memory(node):
    devices.record(node, [replace(CARD, memory_free_bytes=None)], {}, AT)
    card = Device.objects.get()
    assert card.memory_free_bytes is None
    assert card.foreign_bytes == 0
    [sample] = devices.samples(node, [replace(CARD, memory_free_bytes=None)], AT)
    assert sample.memory_used_bytes is None


def test_e08_a_failed_reading_keeps_the_last_inventory_as_stale(node):
    devices.record(node, [CARD], {}, AT)
    broken = replace(CARD, memory_total_bytes=0, error="driver and library differ")
    devices.record(node, [broken], {}, datetime(2026, 11, 2, tzinfo=UTC))
    card = Device.objects.get()
    assert (card.memory_total_bytes, card.read_at) == (80, AT)
    assert "differ" in card.error
    devices.record(node, [CARD], {}, AT)
    assert Device.objects.get().error == ""


def test_a_device_that_is_no_longer_there_says_so(node):
    devices.record(node, [CARD], {}, AT)
    devices.record(node, [], {}, AT)
    assert "no longer" in Device.objects.get().error


def test_the_memory_of_a_host_is_its_nodes_device(node):
    [reading] = devices.named([replace(CARD, uuid="cpu-abc", kind="cpu")], node)
    assert reading.uuid == "cpu-n1"
