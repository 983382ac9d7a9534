"""How much may wait in spools to be stored."""

from dataclasses import dataclass
from pathlib import Path

from control.metering.segments import bytes_in_all, lines_in_all

SPOOL_BYTES_MAX = 1024 * 1024 * 1024
SPOOL_EVENTS_MAX = 2_000_000
SPOOL_BYTES_UNCOUNTED = 64 * 1024 * 1024  # so few hold no two million lines


@dataclass(frozen=True)
class Bounds:
    """What all owners' spools together may hold before new calls are refused."""

    bytes: int = SPOOL_BYTES_MAX
    events: int = SPOOL_EVENTS_MAX
    bytes_uncounted: int = SPOOL_BYTES_UNCOUNTED

    def leave_room(self, directory: Path) -> bool:
        used = bytes_in_all(directory)
        if used < min(self.bytes_uncounted, self.bytes):
            return True
        return used < self.bytes and lines_in_all(directory) < self.events


BOUNDS = Bounds()
