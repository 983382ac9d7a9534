"""Engines of a home that nobody wants: found by their marks and records, and ended."""

from pathlib import Path

from engines import processes, supervisor
from engines.processes import Process
from engines.supervisor import Stopped


def find(home: str, known: set[int]) -> set[int]:
    """Replicas that have processes here and are not known, so that nobody stops them."""
    found = {
        replica
        for process in processes.all_running()
        if (replica := _replica_of(process, home)) is not None
    }
    for folder in sorted(Path(home, "engines").glob("replica-*")):
        record = supervisor.read_record(folder)
        if record and record.replica_id not in known | found and supervisor.members(record):
            found.add(record.replica_id)
    return found - known


def end(home: str, replicas: set[int], grace_seconds: float) -> Stopped:
    """These and no others: what is launched meanwhile is somebody's."""
    records = [
        record
        for replica in sorted(replicas)
        if (record := supervisor.read_record(Path(home, "engines", f"replica-{replica}")))
    ]

    def running() -> list[Process]:
        marked = [
            process for process in processes.all_running() if _replica_of(process, home) in replicas
        ]
        of_records = [process for record in records for process in supervisor.members(record)]
        return sorted({*marked, *of_records}, key=lambda process: process.pid)

    left = processes.end_all(running, grace_seconds)
    return Stopped(not left, tuple(process.pid for process in left))


def _replica_of(process: Process, home: str) -> int | None:
    marks = processes.environment(process.pid, ("WEIR_HOME", "WEIR_REPLICA"))
    replica = marks.get("WEIR_REPLICA", "")
    return int(replica) if marks.get("WEIR_HOME") == home and replica.isdecimal() else None
