"""A node's devices as the database knows them: readings in, foreign memory told apart."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import datetime, timedelta

import psutil
from django.db.models import F

from control.models import Device, Node
from control.telemetry.messages import DeviceSample
from engines import xids
from engines.spec import GpuReading

XID_KEPT = timedelta(hours=1)  # of a card, before one of a program takes its place
GONE = "is no longer reported by the driver"
PLACEHOLDER = "gpu-at-"  # of a card that has never told its uuid
SLICED = "is split into MIG slices, which are devices of their own"
FOREIGN_PIDS_MAX = 64
# Rows are what decisions are made by: written when something moved, else now and then, so that
# eight cards cost a node next to nothing. Charts have their own way.
WRITTEN_EVERY = timedelta(seconds=5)
MOVED_BYTES = 64 * 1024**2
_WRITTEN = (
    *("node", "index", "kind", "name", "memory_total_bytes", "memory_free_bytes"),
    *("foreign_bytes", "foreign_pids", "read_at", "error", "lost", "parent_uuid", "links"),
    *("compute_capability", "utilisation_ratio", "power_watts", "energy_joules"),
    *("temperature_celsius", "ecc_corrected", "ecc_uncorrected"),
)


def named(readings: Iterable[GpuReading], node: Node) -> list[GpuReading]:
    """A host's RAM is a device of its node: two nodes on one host are two devices.

    So is a card that has never told its uuid: its place is all that is known of it.
    """
    return [
        replace(reading, uuid=f"{reading.uuid}@{node.name}")
        if _is_placeholder(reading)
        else replace(reading, uuid=f"cpu-{node.name}")
        if reading.kind == "cpu"
        else reading
        for reading in readings
    ]


class Recorder:
    """Writes readings down; remembers what it wrote, and may forget it at any time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._last: dict[str, tuple] = {}
        self._written_at: datetime | None = None
        self._inventory: tuple = ()

    def record(self, readings: list[GpuReading], our_pids: set[int], at: datetime) -> bool:
        """False: nothing has moved since the last time, a moment ago."""
        ours = used_by(readings, our_pids)
        marks = {one.uuid: _mark(one, ours.get(one.uuid, 0)) for one in readings}
        due = self._written_at is None or at - self._written_at >= WRITTEN_EVERY
        if not due and marks == self._last and not any(one.xids for one in readings):
            return False
        _write(self._node, readings, ours, our_pids, at)
        inventory = _inventory(readings)
        if inventory != self._inventory:
            _take_stock(self._node, readings)
        self._last, self._written_at, self._inventory = marks, at, inventory
        return True


def _write(
    node: Node, readings: list[GpuReading], ours: dict[str, int], pids: set[int], at: datetime
) -> None:
    good = [one for one in readings if not one.error]
    Device.objects.bulk_create(
        [_row(node, one, ours.get(one.uuid, 0), pids, at) for one in good],
        update_conflicts=True,
        unique_fields=["uuid"],
        update_fields=_WRITTEN,
    )
    for reading in readings:
        if reading.error:
            _keep(node, reading)
        if reading.xids:
            _count(reading, at)


def _inventory(readings: list[GpuReading]) -> tuple:
    """What is there, and under which driver."""
    return (
        tuple(sorted((one.uuid, one.index, one.parent_uuid) for one in readings)),
        next((one.driver for one in readings if one.driver), ""),
        next((one.cuda for one in readings if one.cuda), ""),
    )


def _take_stock(node: Node, readings: list[GpuReading]) -> None:
    """What is not there any more, and the driver."""
    _mark_absent(node, readings)
    _, driver, cuda = _inventory(readings)
    if driver:
        told = {"driver": driver, "cuda": cuda}
        Node.objects.filter(pk=node.pk).exclude(**told).update(**told)


def samples(node: Node, readings: list[GpuReading], at: datetime) -> list[DeviceSample]:
    return [
        DeviceSample(
            at=at.timestamp(),
            uuid=reading.uuid,
            label=f"{node.name}/{reading.index} {reading.name}",
            kind=reading.kind,
            memory_total_bytes=reading.memory_total_bytes,
            memory_used_bytes=_used_bytes(reading),
            utilisation_ratio=reading.utilisation_ratio,
            power_watts=reading.power_watts,
            temperature_celsius=reading.temperature_celsius,
            error=reading.error,
        )
        for reading in readings
    ]


def used_by(readings: list[GpuReading], pids: set[int]) -> dict[str, int]:
    """Device -> bytes of these processes. A host's RAM: what is theirs alone to give back."""
    used = {}
    for reading in readings:
        if reading.kind == "cpu":
            used[reading.uuid] = private_bytes(pids)
        else:
            used[reading.uuid] = _used_of_card(reading, pids)
    return used


def private_bytes(pids: set[int]) -> int:
    """RAM that ends with these processes."""
    return sum(map(_private_bytes, pids))


def ghosts(
    readings: Iterable[GpuReading], uuids: set[str], ended: Iterable[int]
) -> tuple[int, ...]:
    """Processes that have ended and are still shown on these cards: stuck in the driver.

    A number that a new process bears is not one of them.
    """
    shown = {pid for reading in readings if reading.uuid in uuids for pid, _ in reading.processes}
    return tuple(sorted(pid for pid in shown.intersection(ended) if not psutil.pid_exists(pid)))


def bytes_by_process(readings: list[GpuReading]) -> dict[int, int]:
    """What each process holds of the cards, where the driver tells."""
    held: dict[int, int] = {}
    for reading in readings:
        for pid, size in reading.processes:
            held[pid] = held.get(pid, 0) + (size or 0)
    return held


def foreign_pids(reading: GpuReading, pids: set[int]) -> list[int]:
    """Processes on a card that are not these, as many as are shown."""
    return sorted(pid for pid, _ in reading.processes if pid not in pids)[:FOREIGN_PIDS_MAX]


def _used_of_card(reading: GpuReading, pids: set[int]) -> int:
    """A driver that does not say how much ours hold: all that the others do not."""
    ours = [size for pid, size in reading.processes if pid in pids]
    if None not in ours:
        return sum(ours)
    others = sum(size or 0 for pid, size in reading.processes if pid not in pids)
    return max(0, (_used_bytes(reading) or 0) - others)


def _row(node: Node, one: GpuReading, ours_bytes: int, pids: set[int], at: datetime) -> Device:
    return Device(
        node=node,
        uuid=one.uuid,
        index=one.index,
        kind=one.kind,
        name=one.name,
        memory_total_bytes=one.memory_total_bytes,
        memory_free_bytes=one.memory_free_bytes,
        foreign_bytes=max(0, (_used_bytes(one) or 0) - ours_bytes),
        foreign_pids=foreign_pids(one, pids),
        read_at=at,
        parent_uuid=one.parent_uuid,
        links=[asdict(link) for link in one.links],
        compute_capability=one.compute_capability,
        utilisation_ratio=one.utilisation_ratio,
        power_watts=one.power_watts,
        energy_joules=one.energy_joules,
        temperature_celsius=one.temperature_celsius,
        ecc_corrected=one.ecc_corrected,
        ecc_uncorrected=one.ecc_uncorrected,
    )


def _keep(node: Node, reading: GpuReading) -> None:
    """The last inventory stays, as stale: nothing new is placed, running engines go on."""
    said = {"error": reading.error, "lost": reading.lost}
    if Device.objects.filter(uuid=reading.uuid).update(**said):
        return
    if _is_placeholder(reading):
        # Perhaps it told its uuid before this worker started: then it is the card of that place.
        before = Device.objects.filter(node=node, index=reading.index, kind="gpu").order_by("-pk")
        if known := before.first():
            Device.objects.filter(pk=known.pk).update(**said)
            return
    Device.objects.create(
        node=node,
        uuid=reading.uuid,
        index=reading.index,
        kind=reading.kind,
        name=reading.name,
        memory_total_bytes=reading.memory_total_bytes,
        **said,
    )


def _count(reading: GpuReading, at: datetime) -> None:
    """What programs suffer follows at once on an error of the card, and must not cover it."""
    own = [code for code in reading.xids if xids.is_of_the_card(code)]
    rows = Device.objects.filter(uuid=reading.uuid)
    rows.update(xid_errors=F("xid_errors") + len(reading.xids))
    if not own:
        rows = rows.exclude(xid_last__in=xids.OF_CARDS, xid_at__gt=at - XID_KEPT)
    rows.update(xid_last=(own or reading.xids)[-1], xid_at=at)


def _mark_absent(node: Node, readings: list[GpuReading]) -> None:
    """What was read before and is not there now, each with why."""
    seen = [one.uuid for one in readings]
    unnamed = {one.index for one in readings if _is_placeholder(one)}
    absent = Device.objects.filter(node=node).exclude(uuid__in=seen).exclude(index__in=unnamed)
    named_now = absent.filter(uuid__startswith=PLACEHOLDER)
    named_now.delete()  # it told its uuid at last
    sliced = [one.parent_uuid for one in readings if one.parent_uuid]
    absent.filter(uuid__in=sliced).exclude(error=SLICED).update(error=SLICED, lost=False)
    absent.exclude(uuid__in=sliced).exclude(error=GONE).update(error=GONE)


def _mark(reading: GpuReading, ours_bytes: int) -> tuple:
    """What must be known at once when it moves."""
    used = _used_bytes(reading) or 0
    return (
        *(reading.index, reading.error, reading.lost, reading.parent_uuid, reading.links),
        *(reading.memory_total_bytes, used // MOVED_BYTES, ours_bytes // MOVED_BYTES),
        *(tuple(pid for pid, _ in reading.processes), reading.ecc_uncorrected),
    )


def _is_placeholder(reading: GpuReading) -> bool:
    return reading.uuid.startswith(PLACEHOLDER)


def _used_bytes(reading: GpuReading) -> int | None:
    free = reading.memory_free_bytes
    return None if free is None else reading.memory_total_bytes - free


def _private_bytes(pid: int) -> int:
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return 0
    return max(0, memory.rss - memory.shared)
