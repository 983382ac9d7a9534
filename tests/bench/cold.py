"""How long an engine takes to start through Weir, and alone: in turn, stage by stage."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil
import psycopg

from control.management.local.ports import free_port
from engines import supervisor
from engines.kinds import KINDS
from tests.bench.report import say
from tests.flows.weir import Weir

PAIRS, PAIRS_MAX = 2, 3
SECONDS_MAX = 110  # no further pair begins later
LOOK_SECONDS = 0.05  # seldom enough to cost neither of the two anything
HANG_SECONDS = 600  # ten times what a start of vLLM takes on two cores

_LAST = (
    "control_replica r JOIN control_deployment d ON d.id = r.deployment_id"
    " LEFT JOIN control_coldstart s ON s.replica_id = r.id"
    " WHERE d.name = %s AND r.ended_at IS NULL"
)
_PID = f"SELECT r.pid, r.id FROM {_LAST} AND r.pid IS NOT NULL"
_READY = (
    "SELECT extract(epoch FROM r.created_at), extract(epoch FROM r.ready_at), s.wait_seconds"
    f" FROM {_LAST} AND s.wait_seconds IS NOT NULL"
)
_LIVE = f"SELECT 1 FROM {_LAST}"


class Start(NamedTuple):
    stages: dict[str, float]  # one after the other

    @property
    def seconds(self) -> float:
        return sum(self.stages.values())

    def __str__(self) -> str:
        told = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.stages.items())
        return f"{self.seconds:.2f} s: {told}"


@dataclass
class Cold:
    """Of one kind of engine. The least of each says what it takes; more is other work."""

    weir: list[Start] = field(default_factory=list)
    alone: list[Start] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return _least(self.weir).seconds / _least(self.alone).seconds

    def rows(self, kind: str) -> list[list[str]]:
        ways = (f"cold start of {kind}", self.weir), (f"{kind} alone", self.alone)
        return [
            row
            for name, starts in ways
            for row in (
                [f"{name}, s, each try", ", ".join(f"{one.seconds:.2f}" for one in starts)],
                [f"{name}, the least by stage", str(_least(starts))],
            )
        ]


def _least(starts: list[Start]) -> Start:
    return min(starts, key=lambda start: start.seconds)


class Command(NamedTuple):
    argv: list[str]
    environment: dict[str, str]

    @property
    def port(self) -> int:
        return int(self.argv[self.argv.index("--port") + 1])


def measure(
    weir: Weir,
    database: psycopg.Connection,
    name: str,
    want: Callable[[int], subprocess.Popen],
    *,
    pairs: int = PAIRS,
) -> Cold:
    """`want` applies so many replicas.

    An engine's first start fills caches in the home (vLLM's takes ten seconds more for it), which
    the second, alone, finds filled: of two and more through Weir one is like it.
    """
    cold, began = Cold(), time.monotonic()
    for number in range(PAIRS_MAX):
        if number >= pairs and (pairs == 1 or time.monotonic() - began > SECONDS_MAX):
            break
        started, command = _through(weir, database, name, want)
        cold.weir.append(started)
        say(f"cold start of {name}: {started}")
        cold.alone.append(_alone(command, weir.folder / "alone.log"))
        say(f"the engine alone: {cold.alone[-1]}")
    return cold


def _through(weir, database, name, want) -> tuple[Start, Command]:
    """From the row of the launch to READY, as tenants wait for it."""
    applied = want(1)
    pid, replica = soon(lambda: database.execute(_PID, [name]).fetchone(), "a process")
    command = soon(lambda: _command(pid), "it has become the engine")
    log = weir.home.path / "engines" / f"replica-{replica}"
    began = (log / supervisor.RECORD).stat().st_mtime  # it is written, and then the engine runs
    stages = _stages(name, log, command.port, began)
    row = soon(lambda: database.execute(_READY, [name]).fetchone(), f"{name} is ready")
    created, ready, wait = map(float, row)
    before = {"wait": wait, "fetch": began - created - wait}
    after = {"warm-up": ready - began - sum(stages.values())}
    started = Start(before | stages | after)
    applied.wait(HANG_SECONDS)
    want(0).wait(HANG_SECONDS)
    soon(lambda: not database.execute(_LIVE, [name]).fetchone(), "it has ended")
    return started, command


def _alone(command: Command, folder: Path) -> Start:
    """The same command, by nobody, until it answers that it is well."""
    folder.mkdir(exist_ok=True)
    port, argv = free_port(), list(command.argv)
    argv[argv.index("--port") + 1] = str(port)
    # By this name the node knows its engines, and ends those that no launch wants.
    environment = {k: v for k, v in command.environment.items() if k != "WEIR_REPLICA"}
    began = time.time()
    with (folder / supervisor.LOG).open("wb") as log:
        process = subprocess.Popen(
            argv, env=environment, cwd="/", stdout=log, stderr=log, start_new_session=True
        )
    try:
        return Start(_stages(argv[2], folder, port, began))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _stages(what: str, folder: Path, port: int, began: float) -> dict[str, float]:
    """By what its log says, until `/health` is good. It is asked as seldom in both ways."""
    reached = {"import": began}
    names = {"loading": "load", "warming": "capture"}
    read_phase, ends = KINDS["vllm"].read_phase, None

    def well() -> bool:
        nonlocal ends
        phase = read_phase(supervisor.log_text(folder)).name
        if phase in names:
            reached.setdefault(names[phase], time.time())
        ends = time.time() if _is_healthy(port) else None
        return ends is not None

    soon(well, f"{what} is healthy")
    instants = [*reached.values(), ends]
    return {name: instants[n + 1] - instants[n] for n, name in enumerate(reached)}


def _command(pid: int) -> Command | None:
    """None while it is the shim, which becomes the engine."""
    engine = psutil.Process(pid)
    argv = engine.cmdline()
    return Command(argv, engine.environ()) if "--port" in argv and "-I" not in argv[:3] else None


def _is_healthy(port: int) -> bool:
    """In so few words that it costs next to nothing, however often."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as asked:
        asked.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        return b" 200 " in asked.recv(64)
    return False


def soon(holds: Callable[[], object], what: str, look_seconds: float = LOOK_SECONDS) -> object:
    deadline = time.monotonic() + HANG_SECONDS
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {HANG_SECONDS} s in vain: {what}")
        time.sleep(look_seconds)
    return found
