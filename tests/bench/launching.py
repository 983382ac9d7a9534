"""Launches on a real `weir up` with the stub engine: how soon each step follows the one before."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import psutil
import psycopg

from control.management.local.ports import free_port
from tests.bench.report import ROOT, say
from tests.flows.weir import HANG_SECONDS, Weir

ROUNDS = 3
LOOK_SECONDS = 0.005
SLOW_SECONDS = 20  # as long as a small model takes to start
SERVICE = f"""
apiVersion: weir/v1
tenants:
  - name: acme
    keys: [{{name: ci, secret_env: ACME_KEY}}]
models:
  - name: quick
    versions: [{{name: v1, engine: {{kind: stub}}, arguments: {{max_model_len: 2048}}}}]
  - name: slow
    versions:
      - name: v1
        engine: {{kind: stub}}
        arguments: {{max_model_len: 2048, start_seconds: {SLOW_SECONDS}}}
deployments:
  - {{name: quick, model: quick, version: v1, replicas: {{min: QUICK, max: QUICK}}}}
  - {{name: slow, model: slow, version: v1, replicas: {{min: SLOW, max: SLOW}}}}
routes:
  - {{name: quick, targets: [{{deployment: quick}}]}}
"""
_WANTED = "SELECT 1 FROM control_deployment WHERE name = %s AND replicas_wanted = 1"
_LAST = "control_replica r JOIN control_deployment d ON d.id = r.deployment_id WHERE d.name = %s"
_PID = f"SELECT pid FROM {_LAST} AND r.ended_at IS NULL AND pid IS NOT NULL"
_READY = f"""
SELECT extract(epoch FROM r.ready_at), extract(epoch FROM r.ready_at - r.created_at)
FROM {_LAST} AND r.ended_at IS NULL AND r.state = 'ready'
"""
_LIVE = f"SELECT 1 FROM {_LAST} AND r.ended_at IS NULL"


@dataclass
class Seen:
    """Seconds of each try."""

    to_process: list[float] = field(default_factory=list)
    to_routed: list[float] = field(default_factory=list)
    cold: float = 0.0  # from the launch to ready
    alone: float = 0.0


def measure() -> Seen:
    seen, weir = Seen(), Weir(_service(0, 0), WEIR_GATEWAY_PROCESSES="1")
    try:
        weir.start(ready=False)
        with psycopg.connect(weir.connections()["database_url"], autocommit=True) as database:
            for _ in range(ROUNDS):
                _round(weir, database, seen)
                say(f"launching: {seen}")
            _cold(weir, database, seen)
    finally:
        weir.clean_up()
    return seen


def _round(weir: Weir, database: psycopg.Connection, seen: Seen) -> None:
    command = _apply(weir, 1, 0)
    _soon(lambda: database.execute(_WANTED, ["quick"]).fetchone(), "`weir apply` commits")
    committed = time.monotonic()
    _soon(lambda: database.execute(_PID, ["quick"]).fetchone(), "a launch has a process")
    seen.to_process.append(round(time.monotonic() - committed, 3))
    routed = _first_answer(weir)
    ready_at = _soon(lambda: database.execute(_READY, ["quick"]).fetchone(), "it is ready")[0]
    seen.to_routed.append(round(routed - float(ready_at), 3))
    command.wait(HANG_SECONDS)
    _apply(weir, 0, 0).wait(HANG_SECONDS)
    _soon(lambda: not database.execute(_LIVE, ["quick"]).fetchone(), "it has ended")


def _first_answer(weir: Weir) -> float:
    """When the first byte of the first good answer came; refused, it asks again at once."""
    body = {"model": "quick", "prompt": "hi", "max_tokens": 1}
    with weir.client() as client:

        def asked() -> bool:
            return client.post("/v1/completions", json=body).status_code == 200

        _soon(asked, "the route answers")
    return time.time()


def _cold(weir: Weir, database: psycopg.Connection, seen: Seen) -> None:
    """Through Weir, then the same command without it."""
    command = _apply(weir, 0, 1)
    ready = _soon(lambda: database.execute(_READY, ["slow"]).fetchone(), "a slow engine is ready")
    seen.cold = float(ready[1])
    command.wait(HANG_SECONDS)
    pid = database.execute(_PID, ["slow"]).fetchone()[0]
    seen.alone = _alone(psutil.Process(pid))
    say(f"cold start: {seen.cold:.2f} s, the engine alone {seen.alone:.2f} s")


def _alone(engine: psutil.Process) -> float:
    argv, environment, port = engine.cmdline(), engine.environ(), free_port()
    argv[argv.index("--port") + 1] = str(port)
    began = time.monotonic()
    process = subprocess.Popen(argv, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        _soon(lambda: _is_healthy(port), "the engine alone is healthy")
        return time.monotonic() - began
    finally:
        process.kill()
        process.wait()


def _is_healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def _apply(weir: Weir, quick: int, slow: int) -> subprocess.Popen:
    file = weir.folder / "wanted.yaml"
    file.write_text(_service(quick, slow))
    argv = [*weir.command, "apply", "-f", str(file), "--yes"]
    return subprocess.Popen(argv, env=weir.environment, stdout=subprocess.DEVNULL)


def _service(quick: int, slow: int) -> str:
    return SERVICE.replace("QUICK", str(quick)).replace("SLOW", str(slow))


def _soon(holds: Callable[[], object], what: str) -> object:
    deadline = time.monotonic() + HANG_SECONDS
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {HANG_SECONDS} s in vain: {what}")
        time.sleep(LOOK_SECONDS)
    return found
