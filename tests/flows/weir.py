"""A real `weir up` in a home of its own: what flows start, call, kill and stop."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import psycopg
import redis

from control.management.local.account import server_account
from control.management.local.home import Home
from control.management.local.ports import free_port
from tests import schema
from tests.servers import ROOT
from tests.threads import HANG_SECONDS

STUB = ROOT / "examples" / "stub.yaml"
POLL_SECONDS = 0.05


def until(holds: Callable[[], object], what: str, seconds: float = HANG_SECONDS) -> object:
    """Wait for something true; the limit is a guard against hanging, not a promise."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}"
        time.sleep(POLL_SECONDS)
    return found


def clean_environment(**more: str) -> dict[str, str]:
    """Ours without the servers that this pytest process runs for itself."""
    return {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")} | more


def end_at_once(process: psutil.Process) -> None:
    """Killed, PostgreSQL would leave its shared memory to the machine."""
    if "postgres" in process.name():
        process.send_signal(signal.SIGQUIT)
        process.resume()
    else:
        process.kill()


class Weir:
    """One instance. `start` may be called again after `kill_supervisor` or `stop`."""

    def __init__(self, service: Path | str = STUB, **environment: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="weir-flow-"))
        self.folder.chmod(0o711)
        self.home = Home(self.folder / "home")
        self.service = self._file(service)
        self.key = f"weir-{secrets.token_urlsafe(30)}"
        gateway, console = free_port(), free_port()
        self.gateway_url = f"http://127.0.0.1:{gateway}"
        self.console_url = f"http://127.0.0.1:{console}"
        self.environment = clean_environment(
            WEIR_HOME=str(self.home.path),
            WEIR_GATEWAY_PORT=str(gateway),
            WEIR_CONSOLE_PORT=str(console),
            WEIR_ALLOW_STUB="1",
            ACME_KEY=self.key,
        )
        self.environment |= environment
        self.command = [sys.executable, str(ROOT / "manage.py")]
        self.options: dict = {}  # of subprocess: another account, signals ignored
        self.process: subprocess.Popen | None = None
        self.output = self.folder / "output"

    def with_schema(self) -> "Weir":
        """As after a first start that ended well: what that one makes is not made again."""
        self.home.make()
        servers = self.home.server_place(server_account())
        schema.lend_password(servers)
        schema.copy(schema.ensure(), servers)
        return self

    def start(self, *arguments: str, ready: bool = True) -> "Weir":
        """Back when the servers serve and, unless told otherwise, every route does."""
        argv = [*self.command, "up", "--service", str(self.service), *arguments]
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                argv, env=self.environment, stdout=output, stderr=output, **self.options
            )
        until(self._serves, f"`weir up`, which said:\n{self.said()}")
        if ready:
            self.wait_until_ready()
        return self

    def wait_until_ready(self, seconds: float = HANG_SECONDS) -> None:
        what = f"routes that are ready; `weir up` said:\n{self.said()}"
        until(self._routes_are_ready, what, seconds)

    def weir(self, *arguments: str, **more: str) -> subprocess.CompletedProcess:
        """Any other command against this instance."""
        return subprocess.run(
            [*self.command, *arguments],
            env=self.environment | more,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
            **self.options,
        )

    def stop(self, *arguments: str) -> None:
        done = self.weir("down", *arguments)
        assert done.returncode == 0, done.stderr
        if self.process:
            self.process.wait(HANG_SECONDS)

    def kill_supervisor(self) -> None:
        """kill -9; back when all but the engines are gone, as they must be."""
        children = [child.pid for child in self.home.running().children.values()]
        psutil.Process(self.pid).kill()
        if self.process:
            self.process.wait(HANG_SECONDS)
        until(lambda: not any(is_alive(pid) for pid in children), "children that go along")

    @property
    def pid(self) -> int:
        return self.home.running().pid

    def pids(self) -> dict[str, int]:
        """By name: postgres valkey web gateway control scheduler node."""
        children = self.home.running().children
        return {name: child.pid for name, child in children.items() if name != "welcome"}

    def gateway_workers(self) -> list[int]:
        return [child.pid for child in psutil.Process(self.pids()["gateway"]).children()]

    def engines(self) -> dict[int, dict]:
        """Live engine processes: replica id -> record."""
        records = self.engines_recorded().values()
        return {record["replica_id"]: record for record in records if is_alive(record["pid"])}

    def engines_recorded(self) -> dict[int, dict]:
        """Every engine process that was ever launched: pid -> record."""
        files = self.home.path.glob("engines/replica-*/engine.json")
        records = [json.loads(file.read_text()) for file in files]
        return {record["pid"]: record for record in records}

    def connections(self) -> dict:
        return json.loads(self.home.connections.read_text())

    def rows(self, query: str, *values: object) -> list[tuple]:
        with until(self._database, "a database that answers") as connection:
            return connection.execute(query, values).fetchall()

    def valkey(self, number: int = 2) -> redis.Redis:
        url = f"{self.connections()['redis_url']}/{number}"
        return redis.Redis.from_url(url, decode_responses=True)

    def client(self, **options) -> httpx.Client:
        """For the gateway, with the key of the first tenant."""
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.Client(
            base_url=self.gateway_url, headers=headers, timeout=HANG_SECONDS, **options
        )

    def said(self) -> str:
        return self.output.read_text(errors="replace")[-4000:] if self.output.exists() else ""

    def clean_up(self) -> None:
        """Whatever the test left: nothing of this home may run on."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        # By their session too: processes that an engine renames hide their environment.
        sessions = set(self.engines_recorded())
        for process in [*self.processes(), *_of_sessions(sessions)]:
            with suppress(psutil.NoSuchProcess):
                end_at_once(process)
        for process in psutil.wait_procs(self.processes(), timeout=HANG_SECONDS)[1]:
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self) -> list[psutil.Process]:
        """Everything that carries this home in its environment or its arguments."""
        return [one for one in psutil.process_iter() if self._is_ours(one)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            home = str(self.home.path)
            carried = process.environ().get("WEIR_HOME") == home
            return carried or any(word.startswith(home) for word in process.cmdline())
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def _database(self) -> psycopg.Connection | None:
        """None while it recovers from a kill."""
        try:
            return psycopg.connect(self.connections()["database_url"], autocommit=True)
        except psycopg.OperationalError:
            return None

    def _serves(self) -> bool:
        running = self.home.running()
        if self.process and self.process.poll() not in (None, 0):
            raise AssertionError(f"`weir up` ended:\n{self.said()}")
        return running.stage == "ready" and is_alive(running.pid)

    def _routes_are_ready(self) -> bool:
        if self.process and self.process.poll() not in (None, 0):
            raise AssertionError(f"`weir up` ended:\n{self.said()}")
        try:
            return httpx.get(f"{self.gateway_url}/ready", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def _file(self, service: Path | str) -> Path:
        if isinstance(service, Path):
            return service
        path = self.folder / "service.yaml"
        path.write_text(service)
        return path


def _of_sessions(sessions: set[int]) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(process.pid) in sessions:
                found.append(process)
    return found


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
