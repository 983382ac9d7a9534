"""Launches on a real `weir up`: how soon each step follows the one before.

The stub engine shows what Weir takes itself; vLLM, where its runtime is there, how much that adds
to a start as tenants wait for it.
"""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg

from engines import runtime
from tests.bench import cold
from tests.bench.cold import HANG_SECONDS, Cold, soon
from tests.bench.report import say
from tests.engines.real import LENT, RUNTIMES, VERSION
from tests.flows.weir import Weir
from tests.servers import SHARED

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
REAL_MODEL
deployments:
  - {{name: quick, model: quick, version: v1, replicas: {{min: QUICK, max: QUICK}}}}
  - {{name: slow, model: slow, version: v1, replicas: {{min: SLOW, max: SLOW}}}}
REAL_DEPLOYMENT
routes:
  - {{name: quick, targets: [{{deployment: quick}}]}}
"""
REAL_MODEL = f"""
  - name: real
    versions:
      - name: v1
        engine: {{kind: vllm, version: "{VERSION}"}}
        source: {{path: {SHARED / "tiny-model"}}}
        arguments: {{max_model_len: 512}}
        memory: {{calls: 2}}
"""
REAL_DEPLOYMENT = """
  - {name: real, model: real, version: v1, replicas: {min: REAL, max: REAL}}
"""
_WANTED = "SELECT 1 FROM control_deployment WHERE name = %s AND replicas_wanted = 1"
_LAST = "control_replica r JOIN control_deployment d ON d.id = r.deployment_id WHERE d.name = %s"
_PID = f"SELECT pid FROM {_LAST} AND r.ended_at IS NULL AND pid IS NOT NULL"
_READY = f"""
SELECT extract(epoch FROM r.ready_at) FROM {_LAST} AND r.ended_at IS NULL AND r.state = 'ready'
"""
_LIVE = f"SELECT 1 FROM {_LAST} AND r.ended_at IS NULL"


@dataclass
class Seen:
    """Seconds of each try."""

    to_process: list[float] = field(default_factory=list)
    to_routed: list[float] = field(default_factory=list)
    cold: dict[str, Cold] = field(default_factory=dict)  # by what kind of engine


def measure() -> Seen:
    seen, weir = Seen(), Weir(_service(), WEIR_GATEWAY_PROCESSES="1", **LENT)

    def wants(name: str) -> Callable[[int], subprocess.Popen]:
        return lambda count: _apply(weir, **{name: count})

    try:
        weir.start(ready=False)
        with psycopg.connect(weir.connections()["database_url"], autocommit=True) as database:
            for _ in range(ROUNDS):
                _round(weir, database, seen)
                say(f"launching: {seen}")
            seen.cold["stub"] = cold.measure(weir, database, "slow", wants("slow"), pairs=1)
            if _real_is_here():
                seen.cold["vllm"] = cold.measure(weir, database, "real", wants("real"))
    finally:
        weir.clean_up()
    return seen


def _real_is_here() -> bool:
    """Installed for the tests, with the model that they made: a bench installs nothing."""
    return (
        runtime.installed("vllm", VERSION, "cpu", RUNTIMES)
        and (SHARED / "tiny-model" / "model.safetensors").exists()
    )


def _round(weir: Weir, database: psycopg.Connection, seen: Seen) -> None:
    command = _apply(weir, quick=1)
    soon(lambda: database.execute(_WANTED, ["quick"]).fetchone(), "it commits", LOOK_SECONDS)
    committed = time.monotonic()
    soon(lambda: database.execute(_PID, ["quick"]).fetchone(), "a process", LOOK_SECONDS)
    seen.to_process.append(round(time.monotonic() - committed, 3))
    routed = _first_answer(weir)
    ready_at = soon(lambda: database.execute(_READY, ["quick"]).fetchone(), "it is ready")[0]
    seen.to_routed.append(round(routed - float(ready_at), 3))
    command.wait(HANG_SECONDS)
    _apply(weir).wait(HANG_SECONDS)
    soon(lambda: not database.execute(_LIVE, ["quick"]).fetchone(), "it has ended")


def _first_answer(weir: Weir) -> float:
    """When the first byte of the first good answer came; refused, it asks again at once."""
    body = {"model": "quick", "prompt": "hi", "max_tokens": 1}
    with weir.client() as client:

        def asked() -> bool:
            return client.post("/v1/completions", json=body).status_code == 200

        soon(asked, "the route answers", LOOK_SECONDS)
    return time.time()


def _apply(weir: Weir, **replicas: int) -> subprocess.Popen:
    file = weir.folder / "wanted.yaml"
    file.write_text(_service(**replicas))
    argv = [*weir.command, "apply", "-f", str(file), "--yes"]
    return subprocess.Popen(argv, env=weir.environment, stdout=subprocess.DEVNULL)


def _service(quick: int = 0, slow: int = 0, real: int = 0) -> str:
    here = _real_is_here()
    text = SERVICE.replace("REAL_MODEL", REAL_MODEL if here else "")
    text = text.replace("REAL_DEPLOYMENT", REAL_DEPLOYMENT if here else "")
    for name, count in (("QUICK", quick), ("SLOW", slow), ("REAL", real)):
        text = text.replace(name, str(count))
    return text
