"""The end of an engine's log, kept on its launch's row; the file itself stays small."""

from datetime import datetime
from pathlib import Path

from control.fleet import launch
from control.models import Replica
from control.states import REPLICA_BEFORE_READY
from engines import supervisor

EVERY_SECONDS = 5
LINES = 40
CHARACTERS_MAX = 8000


class KeptLogs:
    """Remembers what was kept and when; a node that starts anew keeps it once more."""

    def __init__(self) -> None:
        self._kept_at: dict[int, datetime] = {}
        self._marks: dict[int, tuple[int, int]] = {}

    def keep_only(self, replica_ids: set[int]) -> None:
        for memory in (self._kept_at, self._marks):
            for gone in set(memory) - replica_ids:
                memory.pop(gone, None)

    def keep(self, replica: Replica, at: datetime, *, due: bool) -> None:
        last = self._kept_at.get(replica.pk)
        if not due and last and (at - last).total_seconds() < EVERY_SECONDS:
            return
        self._kept_at[replica.pk] = at
        folder = launch.folder_of(replica)
        supervisor.trim_log(folder)
        mark = _mark(folder)
        if not due and mark == self._marks.get(replica.pk):
            return  # as it was kept
        self._marks[replica.pk] = mark
        lines = supervisor.log_tail(folder, LINES)
        text = "\n".join(lines).replace("\0", "")[-CHARACTERS_MAX:]
        changed = Replica.objects.filter(pk=replica.pk).exclude(log_tail=text)
        fields = {"log_tail": text}
        if replica.state in REPLICA_BEFORE_READY:
            fields["progress_at"] = at  # a log that grows is progress too (E03)
        changed.update(**fields)


def _mark(folder: Path) -> tuple[int, int]:
    """Another one when something was written to the log."""
    try:
        seen = (folder / supervisor.LOG).stat()
    except FileNotFoundError:
        return 0, 0
    return seen.st_size, seen.st_mtime_ns
