"""A real node worker on eight cards of the fake driver library: what it and engines cost it."""

import subprocess
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
ENGINES = 4
SETTLE_SECONDS, SECONDS = 8, 30
HANG_SECONDS = 120


class Cost(NamedTuple):
    cpu_percent: float  # of a core
    pss_mib: float
    engine_percent: float  # more of a core, for each engine that it watches and scrapes


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
        "WEIR_ALLOW_STUB": "1",
    }
    argv = [sys.executable, str(ROOT / "manage.py"), "node"]
    database = int(place.environment["WEIR_DATABASE_URL"].rpartition(":")[2].partition("/")[0])
    # It listens nowhere: the port that is waited for is the database's, which is there.
    worker = start("node", argv, database, env=place.environment | more)
    try:
        url = place.environment["WEIR_DATABASE_URL"]
        _wait(url, _CARDS, CARDS, "the node worker reported no cards")
        alone, pss = _percent(worker), _pss_mib(worker)
        place.run(f"place('agent', {ENGINES})", "engines")
        _wait(url, _SERVING, ENGINES, "the node worker's engines do not serve")
        return Cost(alone, pss, (_percent(worker) - alone) / ENGINES)
    finally:
        # Engines outlive their agent.
        subprocess.run([*argv, "--stop-engines"], env=place.environment | more, check=False)
        worker.stop()


def _percent(worker: Server) -> float:
    time.sleep(SETTLE_SECONDS)
    began, spent = time.monotonic(), _cpu_nanoseconds(worker)
    time.sleep(SECONDS)
    return (_cpu_nanoseconds(worker) - spent) / 1e9 / (time.monotonic() - began) * 100


def _cpu_nanoseconds(worker: Server) -> int:
    """Of the worker itself: its engines are its children."""
    tasks = Path(f"/proc/{worker.process.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)


_CARDS = (
    "SELECT count(*) FROM control_device d JOIN control_node n ON n.id = d.node_id"
    " WHERE n.name = 'agent' AND d.kind = 'gpu' AND d.read_at IS NOT NULL"
)
_SERVING = (
    "SELECT count(*) FROM control_replica r JOIN control_node n ON n.id = r.node_id"
    " WHERE n.name = 'agent' AND r.state = 'ready'"
)


def _wait(url: str, query: str, count: int, in_vain: str) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(query).fetchone()[0] < count:
            if time.monotonic() > deadline:
                raise SystemExit(in_vain)
            time.sleep(0.2)


def _pss_mib(worker: Server) -> float:
    return sum(psutil.Process(pid).memory_full_info().pss for pid in worker.pids()) / 2**20
