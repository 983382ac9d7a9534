"""The processes that the gateway benchmark visits beside Weir: upstream, plain relay, nginx."""

import contextlib
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

from control.management.local.ports import free_port
from tests.bench.report import ROOT

KEY = "weir-" + "b" * 40
SECOND = "weir-" + "r" * 40  # the key that is revoked
STARTING_SECONDS_MAX = 60
MEASURED_CORE, OTHER_CORE = 0, 1
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
        """User and system time of all its threads and of its children's, of those that live."""
        spent = 0
        for pid in self.pids():
            for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                with contextlib.suppress(OSError):  # it ends while it is looked at
                    spent += int(file.read_text().split()[0])
        return spent

    def memory_mib(self, pids: list[int] | None = None) -> float:
        pids = pids or self.pids()
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
        return pages * os.sysconf("SC_PAGESIZE") / 2**20

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def pids(self) -> list[int]:
        found = [self.process.pid]
        for pid in found:  # grows while it is read: children of children too
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    found.extend(int(child) for child in children.read_text().split())
        return found


def upstream(folder: Path, *words: str) -> Server:
    port = free_port()
    argv = [str(folder / "upstream"), str(port), *words]
    return start(" ".join(("upstream", *words)), argv, port, core=OTHER_CORE)


def plain(engine_port: int) -> Server:
    port = free_port()
    argv = [sys.executable, "-m", "tests.bench.plain", str(port), str(engine_port), KEY]
    return start("plain asyncio relay", argv, port, cwd=ROOT)


def nginx(folder: Path, engine_port: int) -> Iterator[Server]:
    """Nothing where it is not installed."""
    program = shutil.which("nginx", path=f"{os.defpath}:/usr/sbin")
    if program is None:
        return
    port, own = free_port(), folder / "nginx"
    own.mkdir()
    config = own / "nginx.conf"
    config.write_text(_NGINX.format(folder=own, port=port, upstream=engine_port))
    yield start("nginx", [program, "-c", str(config), "-e", str(own / "error.log")], port)


def pinned(core: int, argv: list[str]) -> list[str]:
    return ["taskset", "-c", str(core), *argv]


def start(
    name: str,
    argv: list[str],
    port: int,
    *,
    core: int = MEASURED_CORE,
    seconds_max: float = STARTING_SECONDS_MAX,
    **how,
) -> Server:
    process = subprocess.Popen(
        pinned(core, argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **how
    )
    deadline = time.monotonic() + seconds_max
    while not _listens(port):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise SystemExit(f"{name} did not start")
        time.sleep(0.05)
    return Server(name, port, process)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
