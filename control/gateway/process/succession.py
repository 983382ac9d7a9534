"""One parent after another: workers outlive theirs, and go when those of the next one serve.

Who owns a spool says whose child it is; that it lives, the lock on its folder. Nothing else has
to be known of a process that nobody watches any more.
"""

import contextlib
import os
import socket
import time
from pathlib import Path

from control.metering.segments import locked, owners

_SERVES = ".serves"  # in the spool: the parent whose workers do
_LOOK_SECONDS = 0.1


def parent_name() -> str:
    """Of this process, as a parent."""
    return f"{socket.gethostname().split('.')[0]}-{os.getpid()}"


def owner_name(parent: str, number: int, at_ms: int) -> str:
    """Of a worker, never given twice."""
    return f"{parent}-{number}-{at_ms}"


def parent_of(owner: str) -> str:
    return owner.rsplit("-", 2)[0]


def has_parent(owner: str) -> bool:
    """Whether this process, which is that owner, is still its parent's child."""
    return str(os.getppid()) == parent_of(owner).rpartition("-")[2]


def announce(spool: Path, parent: str) -> None:
    """All of the parent's workers serve: those of others may go."""
    spool.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = spool / f"{_SERVES}.{os.getpid()}"
    new.write_text(parent)
    new.replace(spool / _SERVES)


def is_succeeded(spool: Path, owner: str) -> bool:
    """Another parent's workers serve."""
    parent = _serving(spool)
    return parent not in ("", parent_of(owner)) and _lives(parent)


def orphans(spool: Path) -> list[Path]:
    """Folders of workers that live, though their parent does not."""
    folders = [spool / owner for owner in owners(spool) if not _lives(parent_of(owner))]
    return [folder for folder in folders if _is_alive(folder)]


def is_outlived(spool: Path) -> bool:
    """The parent whose workers serve is dead, and some of its kind live."""
    serving = _serving(spool)
    return not (serving and _lives(serving)) and bool(orphans(spool))


def wait_for(folders: list[Path], until: float) -> list[Path]:
    """Those that still live then, by the monotonic clock."""
    while folders and time.monotonic() < until:
        folders = [folder for folder in folders if _is_alive(folder)]
        time.sleep(_LOOK_SECONDS if folders else 0)
    return folders


def _serving(spool: Path) -> str:
    """The parent whose workers do; empty if none ever did."""
    try:
        return (spool / _SERVES).read_text()
    except OSError:
        return ""


def _lives(parent: str) -> bool:
    pid = parent.rpartition("-")[2]
    return not pid.isdigit() or Path("/proc", pid).exists()


def _is_alive(folder: Path) -> bool:
    with contextlib.suppress(FileNotFoundError), locked(folder) as ours:
        return not ours
    return False
