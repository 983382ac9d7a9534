"""What a host without a card offers: its memory and its processors."""

import hashlib
import socket
from pathlib import Path
from typing import NamedTuple

import psutil

_MACHINE_ID = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_ID_CHARACTERS = 12


class ProcessorSeconds(NamedTuple):
    """Of all processors, since the host was started."""

    busy: float
    whole: float

    def ratio_since(self, before: "ProcessorSeconds | None") -> float | None:
        """None where no time has passed that could tell."""
        if before is None or self.whole <= before.whole:
            return None
        return min(max((self.busy - before.busy) / (self.whole - before.whole), 0.0), 1.0)


def machine_id() -> str:
    """The same over restarts and other on every host; of the host name where nothing better is."""
    for path in _MACHINE_ID:
        if path.is_file() and (text := path.read_text().strip()):
            return text
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()


def cpu_uuid() -> str:
    return f"cpu-{machine_id()[:_ID_CHARACTERS]}"


def memory_bytes(root: Path = Path("/")) -> tuple[int, int]:
    """Total and free: of the host, or of the control group we are confined to, below `root`."""
    host = psutil.virtual_memory()
    total, free = host.total, host.available
    for limit, used in _confinements(root):
        total, free = min(total, limit), min(free, max(0, limit - used))
    return total, free


def oom_kills(root: Path = Path("/")) -> int | None:
    """Processes of our control group that the kernel has ended for want of memory, so far."""
    counts = [
        count
        for folder in _own_groups(root)
        for name in ("memory.events", "memory.oom_control")
        if (count := _named(folder / name, "oom_kill")) is not None
    ]
    return max(counts, default=None)


def processor_seconds() -> ProcessorSeconds:
    """Not psutil's cpu_percent: it remembers for each thread, and every reading has its own."""
    times = psutil.cpu_times()
    whole = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return ProcessorSeconds(whole - times.idle - getattr(times, "iowait", 0.0), whole)


def processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:
        return "CPU"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{next(names, 'CPU')} ({psutil.cpu_count() or 1} threads)"


def _confinements(root: Path) -> list[tuple[int, int]]:
    """(limit, used) of our control group and those above it, in both versions of cgroups."""
    found = []
    for folder in _own_groups(root):
        limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes")
        if limit is not None and used is not None:
            # Files in the page cache give way when an engine wants the memory.
            found.append((limit, max(0, used - _reclaimable(folder))))
    return found


def _own_groups(root: Path) -> list[Path]:
    base = root / "sys/fs/cgroup"
    folders = [base, base / "memory"]
    listed = root / "proc/self/cgroup"
    for entry in listed.read_text().splitlines() if listed.exists() else []:
        _, controllers, path = entry.split(":", 2)
        if controllers in ("", "memory"):
            top = base / controllers
            own = top / path.lstrip("/")
            folders += [own, *(up for up in own.parents if top in up.parents)]
    return folders


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None  # "max": no limit


def _named(path: Path, name: str) -> int | None:
    """One figure of a file of names and figures."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    figures = (line.partition(" ")[2] for line in lines if line.partition(" ")[0] == name)
    return next((int(it) for it in figures if it.isdecimal()), None)


def _reclaimable(folder: Path) -> int:
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    stats = dict(line.split(" ", 1) for line in lines if " " in line)
    # Version 1 counts a group and those below it apart; its usage is of all of them.
    return int(stats.get("total_inactive_file", stats.get("inactive_file", 0)))
