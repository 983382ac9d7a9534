"""A node's devices as the database knows them: readings in, foreign memory told apart."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

import psutil

from control.models import Device, Node
from control.telemetry.messages import DeviceSample
from engines.spec import GpuReading

GONE = "is no longer reported by the driver"


def named(readings: Iterable[GpuReading], node: Node) -> list[GpuReading]:
    """A host's RAM is a device of its node: two nodes on one host are two devices."""
    return [
        replace(reading, uuid=f"cpu-{node.name}") if reading.kind == "cpu" else reading
        for reading in readings
    ]


def record(node: Node, readings: list[GpuReading], ours: dict[str, int], at: datetime) -> None:
    """`ours`: bytes that processes of our engines use, by device."""
    for reading in readings:
        _record(node, reading, ours.get(reading.uuid, 0), at)
    seen = [reading.uuid for reading in readings]
    Device.objects.filter(node=node).exclude(uuid__in=seen).exclude(error=GONE).update(error=GONE)


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
            used[reading.uuid] = sum(size or 0 for pid, size in reading.processes if pid in pids)
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


def _record(node: Node, reading: GpuReading, ours_bytes: int, at: datetime) -> None:
    if reading.error:
        # The last inventory stays, as stale: nothing new is placed, running engines go on.
        Device.objects.filter(uuid=reading.uuid).update(error=reading.error)
        return
    Device.objects.update_or_create(
        uuid=reading.uuid,
        defaults={
            "node": node,
            "index": reading.index,
            "kind": reading.kind,
            "name": reading.name,
            "memory_total_bytes": reading.memory_total_bytes,
            "memory_free_bytes": reading.memory_free_bytes,
            "foreign_bytes": max(0, (_used_bytes(reading) or 0) - ours_bytes),
            "read_at": at,
            "error": "",
        },
    )


def _used_bytes(reading: GpuReading) -> int | None:
    free = reading.memory_free_bytes
    return None if free is None else reading.memory_total_bytes - free


def _private_bytes(pid: int) -> int:
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return 0
    return max(0, memory.rss - memory.shared)
