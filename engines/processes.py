"""What /proc tells about processes: identity that survives restarts, sessions, environments."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROC = Path("/proc")
_DEAD = frozenset((b"Z", b"X"))
_STAT_BYTES_MAX = 4096  # it is a tenth of that
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Process:
    """One process now. A pid is reused, a pid with its start ticks is not, within one boot."""

    pid: int
    parent: int
    group: int
    session: int
    start_ticks: int


@cache
def this_boot() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


@cache
def _booted_at_seconds() -> float:
    line = next(x for x in (PROC / "stat").read_text().splitlines() if x.startswith("btime "))
    return float(line.split()[1])


def started_at_seconds(start_ticks: int) -> float:
    """Epoch seconds, to about a second: the kernel tells its boot time in whole ones."""
    return _booted_at_seconds() + start_ticks / os.sysconf("SC_CLK_TCK")


def read(pid: int) -> Process | None:
    """The process, or None when it is gone; a zombie is gone: it holds nothing any more."""
    try:
        # In the kernel's own words: all processes of a host are read, and a file object each
        # would cost more than all the rest.
        handle = os.open(f"{PROC}/{pid}/stat", os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        text = os.read(handle, _STAT_BYTES_MAX)
    except ProcessLookupError:
        return None
    finally:
        os.close(handle)
    # The name in parentheses may itself hold spaces and parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    if fields[0] in _DEAD:
        return None
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def all_running() -> Iterator[Process]:
    for name in os.listdir(PROC):
        if name.isdecimal() and (process := read(int(name))):
            yield process


def same(pid: int, start_ticks: int, boot: str) -> bool:
    """Whether exactly this process still runs."""
    process = read(pid) if boot == this_boot() else None
    return process is not None and process.start_ticks == start_ticks


def myself() -> Process:
    process = read(os.getpid())
    if process is None:
        raise RuntimeError("/proc does not know this process")
    return process


def session(pid: int, start_ticks: int, boot_id: str) -> list[Process]:
    """Those in the session or group that this process leads, or led."""
    if boot_id != this_boot():
        return []
    leader = read(pid)
    if leader and leader.start_ticks != start_ticks:
        # A pid is not given out again while a session bears its number: that one is not ours.
        return []
    return [
        process
        for process in all_running()
        if process.start_ticks >= start_ticks and pid in (process.session, process.group)
    ]


def environment(pid: int, names: tuple[str, ...]) -> dict[str, str]:
    """These variables as the process was started with; empty where we may not look.

    A program that renames itself may have overwritten them: absence proves nothing.
    """
    try:
        entries = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    pairs = (entry.decode(errors="replace").partition("=") for entry in entries)
    return {name: value for name, _, value in pairs if name in names}


def own_bytes(pid: int) -> int:
    """Memory that is this process's alone to give back, in RAM or swapped out."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    kilobytes = (line.split()[1] for line in lines if line.startswith(("RssAnon:", "VmSwap:")))
    return sum(map(int, kilobytes)) * 1024


def resident_bytes(pid: int) -> int:
    try:
        pages = (PROC / str(pid) / "statm").read_text().split()[1]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def send(process: Process, number: signal.Signals) -> None:
    """Signal this process and never another one that got its pid meanwhile."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # The handle is taken first: if the ticks still match, it holds the process we mean.
        if same(process.pid, process.start_ticks, this_boot()):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def end_all(find: Callable[[], list[Process]], grace_seconds: float) -> list[Process]:
    """SIGTERM, wait, SIGKILL; `find` is asked again each time, as processes make new ones.

    Returns those that not even SIGKILL ended, stuck in the kernel: the caller must not reuse
    what they hold.
    """
    told: set[Process] = set()
    if not _wait_gone(find, grace_seconds, lambda process: _once(process, told)):
        _wait_gone(find, KILL_WAIT_SECONDS, lambda process: send(process, signal.SIGKILL))
    return find()


KILL_WAIT_SECONDS = 5.0


def _once(process: Process, told: set[Process]) -> None:
    if process not in told:
        told.add(process)
        send(process, signal.SIGTERM)


def _wait_gone(
    find: Callable[[], list[Process]], wait_seconds: float, tell: Callable[[Process], None]
) -> bool:
    deadline = time.monotonic() + wait_seconds
    while running := find():
        for process in running:
            tell(process)
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
