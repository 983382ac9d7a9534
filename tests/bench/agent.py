"""A real node worker without engines, on eight cards of the fake driver library: what it costs."""

import sys
import time
from pathlib import Path
from typing import NamedTuple

import psutil
import psycopg

from tests.bench.place import Place
from tests.bench.report import ROOT
from tests.bench.targets import Server, start
from tests.engines.fake_nvml import build, card, write_state

CARDS = 8
SETTLE_SECONDS, SECONDS = 8, 30
HANG_SECONDS = 120


class Cost(NamedTuple):
    cpu_percent: float  # of a core
    pss_mib: float


def measure(place: Place, folder: Path) -> Cost:
    (folder / "nvml").mkdir()
    library, state = build(folder / "nvml"), folder / "state"
    write_state(
        state,
        count=CARDS,
        **{k: v for n in range(CARDS) for k, v in card(n, memory_used=0).items()},
    )
    more = {
        "WEIR_HOME": str(folder / "agent"),
        "WEIR_NODE_NAME": "agent",
        "LD_LIBRARY_PATH": str(library),
        "FAKE_NVML_STATE": str(state),
    }
    argv = [sys.executable, str(ROOT / "manage.py"), "node"]
    database = int(place.environment["WEIR_DATABASE_URL"].rpartition(":")[2].partition("/")[0])
    # It listens nowhere: the port that is waited for is the database's, which is there.
    worker = start("node", argv, database, env=place.environment | more)
    try:
        _wait_for_cards(place.environment["WEIR_DATABASE_URL"])
        time.sleep(SETTLE_SECONDS)
        began, spent = time.monotonic(), worker.cpu_nanoseconds()
        time.sleep(SECONDS)
        spent, took = worker.cpu_nanoseconds() - spent, time.monotonic() - began
        return Cost(spent / 1e9 / took * 100, _pss_mib(worker))
    finally:
        worker.stop()


def _wait_for_cards(url: str) -> None:
    query = (
        "SELECT count(*) FROM control_device d JOIN control_node n ON n.id = d.node_id"
        " WHERE n.name = 'agent' AND d.kind = 'gpu' AND d.read_at IS NOT NULL"
    )
    deadline = time.monotonic() + HANG_SECONDS
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(query).fetchone()[0] < CARDS:
            if time.monotonic() > deadline:
                raise SystemExit("the node worker reported no cards")
            time.sleep(0.2)


def _pss_mib(worker: Server) -> float:
    return sum(psutil.Process(pid).memory_full_info().pss for pid in worker.pids()) / 2**20
