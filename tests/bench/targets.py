"""The processes that the gateway benchmark visits: Weir, its floor, nginx, and what they need."""

import hashlib
import hmac
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from control.management.local.account import server_account
from control.management.local.ports import free_port
from control.management.local.valkey import Valkey
from tests.bench.report import ROOT

KEY = "weir-" + "b" * 40
STARTING_SECONDS_MAX = 60
MEASURED_CORE, OTHER_CORE = 0, 1
_SECRET = "a secret of one benchmark"  # opens nothing: its home is gone when it ends
_FORMAT = 1  # of the snapshot
_PLENTY = 60_000_000  # one a microsecond, the finest that Valkey's clock counts
_NGINX = """
daemon off; worker_processes 1; master_process off; error_log {folder}/error.log; pid {folder}/pid;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u;
  scgi_temp_path {folder}/s;
  upstream engine {{ server 127.0.0.1:{upstream}; keepalive 256; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""


@dataclass
class Server:
    name: str
    port: int
    process: subprocess.Popen

    def cpu_nanoseconds(self) -> int:
        """User and system time of all its threads and of its children's."""
        files = [f for pid in self._pids() for f in Path(f"/proc/{pid}/task").glob("*/schedstat")]
        return sum(int(file.read_text().split()[0]) for file in files)

    def memory_mib(self) -> float:
        pages = sum(int(Path(f"/proc/{p}/statm").read_text().split()[1]) for p in self._pids())
        return pages * os.sysconf("SC_PAGESIZE") / 2**20

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _pids(self) -> list[int]:
        found = [self.process.pid]
        for pid in found:  # grows while it is read: children of children too
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                found.extend(int(child) for child in children.read_text().split())
        return found


def upstream(folder: Path) -> Server:
    port = free_port()
    return _start("upstream", [str(folder / "upstream"), str(port)], port, core=OTHER_CORE)


def valkey(folder: Path) -> tuple[Server, str]:
    account = server_account()
    server = Valkey(folder, free_port(), account, throwaway=True)
    server.prepare()
    started = _start("valkey", server.argv(), server.port, core=OTHER_CORE, **server.popen)
    return started, server.url


def weir(folder: Path, engine_port: int, redis_url: str) -> Server:
    """One real worker, serving from the snapshot's copy on disk: no database, all else on."""
    home, port = folder / "home", free_port()
    for part, content in _snapshot(engine_port).items():
        file = home / "snapshot" / f"{part}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"format": _FORMAT, "version": 1} | content))
    (home / "snapshot" / "confirmed").touch()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")} | {
        "WEIR_HOME": str(home),
        "WEIR_SECRET": _SECRET,
        "WEIR_REDIS_URL": redis_url,
        "WEIR_DATABASE_URL": "postgresql://weir@127.0.0.1:1/weir",
        "WEIR_GATEWAY_PORT": str(port),
        "WEIR_GATEWAY_PROCESSES": "1",
    }
    argv = [sys.executable, str(ROOT / "manage.py"), "gateway", "--owner", "bench"]
    return _start("Weir", argv, port, env=environment)


def plain(engine_port: int) -> Server:
    port = free_port()
    argv = [sys.executable, "-m", "tests.bench.plain", str(port), str(engine_port), KEY]
    return _start("plain asyncio relay", argv, port, cwd=ROOT)


def nginx(folder: Path, engine_port: int) -> Iterator[Server]:
    """Nothing where it is not installed."""
    program = shutil.which("nginx", path=f"{os.defpath}:/usr/sbin")
    if program is None:
        return
    port, own = free_port(), folder / "nginx"
    own.mkdir()
    config = own / "nginx.conf"
    config.write_text(_NGINX.format(folder=own, port=port, upstream=engine_port))
    yield _start("nginx", [program, "-c", str(config), "-e", str(own / "error.log")], port)


def pinned(core: int, argv: list[str]) -> list[str]:
    return ["taskset", "-c", str(core), *argv]


def _start(name: str, argv: list[str], port: int, core: int = MEASURED_CORE, **how) -> Server:
    process = subprocess.Popen(
        pinned(core, argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **how
    )
    deadline = time.monotonic() + STARTING_SECONDS_MAX
    while not _listens(port):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise SystemExit(f"{name} did not start")
        time.sleep(0.05)
    return Server(name, port, process)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _snapshot(engine_port: int) -> dict[str, dict]:
    """One tenant with limits that are asked and never reached, one route, one replica."""
    digest = hmac.digest(_SECRET.encode(), KEY.encode(), hashlib.sha256).hex()
    identity = {
        "key_id": 9,
        "tenant_id": 1,
        "project_id": 4,
        "tenant": "acme",
        "project": "default",
        "key": "ci",
        "priority": "standard",
        "scopes": ["t:1"],
        "routes": None,
        "expires_at": None,
    }
    limits = {"requests_per_minute": _PLENTY, "concurrent_calls": 10_000}
    route = {
        "name": "bench",
        "created_at": 1_764_000_000,
        "stop": [],
        "output_tokens_default": None,
        "output_tokens_max": None,
        "targets": [{"deployment": "d", "weight": 100, "context_tokens": 32_768}],
    }
    replica = {
        "id": 1,
        "generation": 1,
        "deployment": "d",
        "version_id": 3,
        "host": "127.0.0.1",
        "port": engine_port,
        "path": "",
        "tls": False,
        "served_name": "bench",
        "slots": 10_000,
        "state": "ready",
        "sealed_key": "",
    }
    return {
        "identities": {
            "keys": {digest: identity},
            "scopes": {"t:1": {"id": "t:1", "limits": limits}},
        },
        "routes": {"routes": {"bench": route}},
        "replicas": {"replicas": [replica]},
    }
