"""PostgreSQL and Valkey for the tests: real ones, of each process that runs some."""

import atexit
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import TextIO

import pytest

from control.management.local import ports
from control.management.local.account import server_account
from control.management.local.death import dies_with_us
from control.management.local.ports import free_port
from control.management.local.postgres import Postgres
from control.management.local.valkey import Valkey
from tests import schema

ROOT = Path(__file__).parent.parent
STARTING_SECONDS_MAX = 60
ENDING_SECONDS_MAX = 60
# A test's ports are picked long before somebody listens there: none of those that the instances
# which tests start pick for their servers, and of a part that its process has for itself.
PORTS = range(10000, 17000)
PARTS = 32
SHARED = ROOT / ".weir-test"  # engine runtimes and weights: too large to make for each run


# What ends it at once. Killed, PostgreSQL would leave its shared memory to the machine.
AT_ONCE = {Postgres.name: signal.SIGQUIT, Valkey.name: signal.SIGKILL}


def end(server: subprocess.Popen, by: signal.Signals) -> None:
    server.send_signal(by)
    try:
        server.wait(ENDING_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def own_ports() -> tuple[range, TextIO]:
    """Of this process among those that test side by side, so that none picks another's port;
    as long as the file is open."""
    SHARED.mkdir(exist_ok=True)
    for part in range(PARTS):
        lock = (SHARED / f"ports-{part}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
        else:
            return PORTS[part::PARTS], lock
    raise pytest.UsageError(f"{PARTS} processes test here already")


class Servers:
    """Begun before settings load; if the schema is to be made, then while pytest collects."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="weir-test-"))
        self.home.chmod(0o711)  # the servers' account passes through
        account = server_account()
        place = self.home / "servers"
        place.mkdir()
        schema.lend_password(place)
        self.postgres = Postgres(place, free_port(), account, throwaway=True)
        self.valkey = Valkey(place, free_port({self.postgres.port}), account, throwaway=True)
        self.running: list[tuple[subprocess.Popen, signal.Signals]] = []
        self.making: subprocess.Popen | None = None

    def begin(self) -> None:
        self.making = subprocess.Popen([sys.executable, "-m", "tests.schema"], cwd=ROOT)
        self.running.append((self.making, signal.SIGKILL))
        self.valkey.prepare()
        self._start(self.valkey)

    def finish(self) -> None:
        if self.making:
            if self.making.wait(schema.HANG_SECONDS):
                raise pytest.UsageError("no schema was made: what it lacked is told above")
            self.making = None
            schema.copy(schema.place(), self.postgres.place)
            self._start(self.postgres)
            self._wait(self.postgres)
            self._wait(self.valkey)

    def environment(self) -> dict[str, str]:
        return {
            "WEIR_HOME": str(self.home),
            "WEIR_DATABASE_URL": self.postgres.url,
            "WEIR_REDIS_URL": self.valkey.url,
            "WEIR_ALLOW_STUB": "1",
        }

    def stop(self) -> None:
        for process, by in self.running:
            if process.poll() is None:
                end(process, by)
        self.running.clear()
        shutil.rmtree(self.home, ignore_errors=True)

    def _start(self, server: Postgres | Valkey) -> None:
        log = (self.home / f"{server.name}.log").open("ab")
        process = subprocess.Popen(
            server.argv(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=dies_with_us(server.stop_signal),
            **server.popen,
        )
        self.running.append((process, AT_ONCE[server.name]))

    def _wait(self, server: Postgres | Valkey) -> None:
        deadline = time.monotonic() + STARTING_SECONDS_MAX
        while not server.ready():
            if time.monotonic() > deadline or self.running[-1][0].poll() is not None:
                log = (self.home / f"{server.name}.log").read_text()
                raise pytest.UsageError(f"{server.name} did not start:\n{log[-2000:]}")
            time.sleep(0.02)


ports.CHOICE, _held_while_we_run = own_ports()
servers = Servers()
atexit.register(servers.stop)


def only_hands_out(config: pytest.Config) -> bool:
    """With -n the tests run in workers, which have servers of their own."""
    spread = getattr(config.known_args_namespace, "numprocesses", None)
    return bool(spread) and "PYTEST_XDIST_WORKER" not in os.environ


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before pytest-django, which loads the settings in this same hook."""
    for name in [name for name in os.environ if name.startswith("WEIR_")]:
        del os.environ[name]  # the tester's own instance is none of ours
    os.environ.update(servers.environment())
    # A hundred processes that tests start read what the first of them compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if only_hands_out(early_config):
        os.environ["PYTEST_PLUGINS"] = __name__  # workers load what -p names after the settings
    else:
        servers.begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    servers.finish()
    return (yield)


def pytest_unconfigure() -> None:
    servers.stop()
