"""On a real card: its inventory, a foreign process, and what may be booked beside one.

Not collected by `make test`, which needs no card: `make test-gpu` names this file.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from control.fleet import devices
from control.models import Device
from control.placement import books, room
from control.placement.fleet import Fleet
from control.placement.memory import GIB, Sizes
from control.placement.rules import place
from control.placement.world import Need, Placed, Unplaced
from engines import gpu
from tests.fleet.rows import a_node
from tests.flows.weir import until

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
MIB = 1 << 20
HELD_BYTES = 2 * GIB
CONTEXT_BYTES_MAX = GIB  # of the driver, for whoever computes on the card
FIELDS = "uuid,name,memory.total,compute_cap"


def cards() -> list:
    return [one for one in gpu.Reader().read(xids=False) if one.kind == "gpu"]


def first() -> gpu.GpuReading:
    """A whole card: CUDA numbers what one process sees of MIG in another way."""
    return next(one for one in cards() if not one.parent_uuid)


@contextmanager
def held(uuid: str) -> Iterator[int]:
    """The pid of a process that holds HELD_BYTES of the card."""
    argv = [sys.executable, "-m", "tests.gpu.hold", str(HELD_BYTES)]
    env = os.environ | {"CUDA_VISIBLE_DEVICES": uuid}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, env=env, **pipes) as process:
        assert process.stdout.readline() == "held\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()
            process.wait()


def recorded(node) -> Device:
    devices.record(node, cards(), set(), AT)
    return Device.objects.get(uuid=first().uuid)


def that_takes(booked: int, uuid: str) -> Need:
    """Of a shared card, with its margin."""
    size = Sizes(int(booked / room.SHARED_FACTOR), 0, 0, 1)
    return Need(1, 1, 1, {"gpu": size}, share="shared", uuids=(uuid,))


def free_bytes(uuid: str) -> int:
    [device] = [it for node in books.nodes(AT) for it in node.devices if it.uuid == uuid]
    return room.free_bytes(device)


def test_the_inventory_is_what_the_driver_tells_of_itself():
    argv = ["nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits"]
    lines = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    told = {tuple(cell.strip() for cell in line.split(",")) for line in lines}
    read = {
        (it.uuid, it.name, str(it.memory_total_bytes // MIB), it.compute_capability)
        for it in cards()
        if not it.parent_uuid
    }
    assert read == told


@pytest.mark.django_db
def test_a_foreign_process_is_seen_with_what_it_holds():
    node = a_node(at=AT)
    before, shown = recorded(node).foreign_bytes, len(first().processes)
    with held(first().uuid):
        during = recorded(node).foreign_bytes
        assert HELD_BYTES <= during - before <= HELD_BYTES + CONTEXT_BYTES_MAX
        assert len(first().processes) == shown + 1
    until(lambda: recorded(node).foreign_bytes <= before, "memory that is given back")


@pytest.mark.django_db
def test_what_may_be_booked_follows_the_driver_before_during_and_after():
    node, uuid = a_node(at=AT), first().uuid
    recorded(node)
    before = free_bytes(uuid)
    need = that_takes(before - HELD_BYTES // 2, uuid)  # beside what is held there is no room
    assert isinstance(place(need, Fleet(books.nodes(AT))), Placed)
    with held(uuid):
        recorded(node)
        assert before - free_bytes(uuid) >= HELD_BYTES
        refused = place(need, Fleet(books.nodes(AT)))
        assert isinstance(refused, Unplaced)
        assert "used by others" in str(refused)
    until(lambda: recorded(node) and free_bytes(uuid) >= before, "memory that is given back")
    assert isinstance(place(need, Fleet(books.nodes(AT))), Placed)
