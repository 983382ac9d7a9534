"""Memory of cards that the stub says it holds, in the state of a fake driver. None without one."""

import fcntl
import os
from pathlib import Path

STATE = "FAKE_NVML_STATE"


class Cards:
    """Of the cards that this engine was given, by uuid."""

    def __init__(self, state: str, uuids: str) -> None:
        self._path = Path(state) if state else None
        self._uuids = frozenset(filter(None, uuids.split(",")))

    def hold(self, count: int) -> None:
        """So many bytes of each from now on; 0 is to be on them no more."""
        if self._path is None or not self._uuids:
            return
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lines = dict(line.split("=", 1) for line in self._path.read_text().splitlines())
            for name, uuid in list(lines.items()):
                if name.endswith(".uuid") and uuid in self._uuids:
                    _hold(lines, name.removesuffix(".uuid"), count)
            # Replaced in one step: the driver is asked at any moment.
            fresh = self._path.with_suffix(f".{os.getpid()}")
            fresh.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
            fresh.replace(self._path)


def _hold(lines: dict[str, str], card: str, count: int) -> None:
    held = {}
    for name in [name for name in lines if name.startswith(f"{card}.process.")]:
        pid, _, size = lines.pop(name).partition(":")
        held[pid] = size
    own = str(os.getpid())
    before = int(held.pop(own, "") or 0)
    if count:
        held[own] = str(count)
    used = int(lines.get(f"{card}.memory_used", 0))
    lines[f"{card}.memory_used"] = str(max(0, used - before + count))
    for number, (pid, size) in enumerate(held.items()):
        lines[f"{card}.process.{number}"] = f"{pid}:{size}" if size else pid
