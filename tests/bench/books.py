"""Storing calls, reading them back, exporting them: what each costs, in a process of its own."""

import json
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
from django.db import connection

from control.metering.ingest import ship
from tests.bench import traffic

INGEST_CALLS = 200_000


def servers() -> list[psutil.Process]:
    """PostgreSQL's processes, this one's backend among them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = psutil.Process(cursor.fetchone()[0])
    return [backend.parent(), *backend.parent().children()]


def cpu_seconds(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def ingest() -> str:
    who = traffic.people()
    with tempfile.TemporaryDirectory() as name:
        made = traffic.calls(who, INGEST_CALLS, time.time() - 3600, 3000)
        traffic.write_spool(Path(name), "gw", made)
        processes = servers()
        ours, theirs, wall = time.process_time(), cpu_seconds(processes), time.monotonic()
        stored = 0
        while shipped := ship(Path(name), set(), datetime.now(UTC)).events:
            stored += shipped
        ours = time.process_time() - ours
        theirs = cpu_seconds(processes) - theirs
    if stored != INGEST_CALLS:
        raise AssertionError(f"{stored} of {INGEST_CALLS} calls were stored")
    found = {"events": stored, "ours": ours, "theirs": theirs, "wall": time.monotonic() - wall}
    return json.dumps(found)
