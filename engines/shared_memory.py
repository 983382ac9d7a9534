"""Segments in /dev/shm that a killed engine could not take back."""

import os
from pathlib import Path

from engines.processes import PROC

SHM = Path("/dev/shm")
# What Python's multiprocessing.shared_memory calls them. Not its semaphores (sem.mp-*, 32 bytes):
# one that a process which starts is to open by its name is held by nobody until then.
_PATTERN = "psm_*"


def free_leftovers(since_seconds: float) -> list[str]:
    """Remove segments of ours, made since then, that no process maps or holds open.

    A whole engine killed with -9 leaves hundreds of megabytes behind: the process that would
    have cleaned up was killed with it.
    """
    leftovers = {path.name: path for path in SHM.glob(_PATTERN) if _is_ours(path, since_seconds)}
    if leftovers:
        for name in _in_use(set(leftovers)):
            leftovers.pop(name)
    for path in leftovers.values():
        path.unlink(missing_ok=True)
    return sorted(leftovers)


def _is_ours(path: Path, since_seconds: float) -> bool:
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return status.st_uid == os.geteuid() and status.st_ctime >= since_seconds


def _in_use(names: set[str]) -> set[str]:
    """Which of these some process maps or has open."""
    used: set[str] = set()
    for entry in PROC.iterdir():
        if entry.name.isdecimal() and (left := names - used):
            used |= _mapped(entry, left) | _opened(entry, left)
    return used


def _mapped(process: Path, names: set[str]) -> set[str]:
    try:
        maps = (process / "maps").read_text(errors="replace")
    except OSError:  # gone meanwhile, or not ours: then it cannot map a segment of ours (0600)
        return set()
    return {name for name in names if f"{SHM}/{name}" in maps} if str(SHM) in maps else set()


def _opened(process: Path, names: set[str]) -> set[str]:
    found: set[str] = set()
    try:
        for handle in (process / "fd").iterdir():
            found.add(Path(os.readlink(handle)).name)
    except OSError:
        return found & names
    return found & names
