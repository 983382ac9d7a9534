"""Whose a process is: of which of our launches, if of any. One look at /proc for all of them."""

from collections.abc import Iterable, Sequence

from engines import processes
from engines.processes import Process
from engines.spec import EngineRecord

_MARKS = ("WEIR_HOME", "WEIR_REPLICA")


def by_launch(records: Sequence[EngineRecord]) -> dict[int, set[int]]:
    """Replica → pids of its launch. It reads every process of the host: seldom, for a host has
    hundreds."""
    found: dict[int, set[int]] = {record.replica_id: set() for record in records}
    owners = _Owners(records)
    for process in processes.all_running() if records else ():
        if (replica := owners.of(process)) is not None:
            found[replica].add(process.pid)
    return found


def among(records: Sequence[EngineRecord], pids: Iterable[int]) -> set[int]:
    """Which of these processes belong to one of the launches."""
    owners = _Owners(records)
    seen = (processes.read(pid) for pid in pids) if records else ()
    return {one.pid for one in seen if one is not None and owners.of(one) is not None}


class _Owners:
    """A launch's own are its session, and those that left it but carry its marks."""

    def __init__(self, records: Sequence[EngineRecord]) -> None:
        here = [record for record in records if record.boot_id == processes.this_boot()]
        self._leaders = {record.pid: record for record in here}
        self._marks = {(record.home, str(record.replica_id)): record for record in here}
        self._first = min((record.start_ticks for record in here), default=0)

    def of(self, process: Process) -> int | None:
        if process.start_ticks < self._first or not self._leaders:
            return None
        for leader in (process.session, process.group):
            record = self._leaders.get(leader)
            if record and process.start_ticks >= record.start_ticks:
                return record.replica_id
        marks = processes.environment(process.pid, _MARKS)
        record = self._marks.get((marks.get("WEIR_HOME", ""), marks.get("WEIR_REPLICA", "")))
        return record.replica_id if record else None
