"""PostgreSQL and Valkey for the tests: real ones, of each pytest process alone."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from control.management.local.account import server_account
from control.management.local.death import dies_with_us
from control.management.local.ports import free_port
from control.management.local.postgres import Postgres
from control.management.local.valkey import Valkey

ROOT = Path(__file__).parent.parent
STARTING_SECONDS_MAX = 60
SHARED = ROOT / ".weir-test"  # engine runtimes and weights: too large to make for each run


class Servers:
    """Begun before settings load; PostgreSQL's data is made while pytest collects."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="weir-test-"))
        self.home.chmod(0o711)  # the servers' account passes through
        account = server_account()
        place = self.home / "servers"
        place.mkdir()
        self.postgres = Postgres(place, free_port(), account, throwaway=True)
        self.valkey = Valkey(place, free_port({self.postgres.port}), account, throwaway=True)
        self.running: list[subprocess.Popen] = []
        self.making: subprocess.Popen | None = None

    def begin(self) -> None:
        self.making = self.postgres.initialise()
        self.running.append(self.making)
        self.valkey.prepare()
        self._start(self.valkey)

    def finish(self) -> None:
        if self.making:
            self.postgres.initialised(self.making)
            self.making = None
            self._start(self.postgres)
            self._wait(self.postgres)
            self._wait(self.valkey)

    def environment(self) -> dict[str, str]:
        return {
            "WEIR_HOME": str(self.home),
            "WEIR_DATABASE_URL": self.postgres.url,
            "WEIR_REDIS_URL": self.valkey.url,
            "WEIR_ALLOW_STUB": "1",
            "WEIR_RUNTIMES": str(SHARED / "runtimes"),
            "WEIR_WEIGHTS": str(SHARED / "weights"),
        }

    def stop(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
                process.wait()
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
        self.running.append(process)

    def _wait(self, server: Postgres | Valkey) -> None:
        deadline = time.monotonic() + STARTING_SECONDS_MAX
        while not server.ready():
            if time.monotonic() > deadline or self.running[-1].poll() is not None:
                log = (self.home / f"{server.name}.log").read_text()
                raise pytest.UsageError(f"{server.name} did not start:\n{log[-2000:]}")
            time.sleep(0.02)


servers = Servers()
atexit.register(servers.stop)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Before pytest-django, which loads the settings in this same hook."""
    for name in [name for name in os.environ if name.startswith("WEIR_")]:
        del os.environ[name]  # the tester's own instance is none of ours
    os.environ.update(servers.environment())
    # A hundred processes that tests start read what the first of them compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    servers.begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    servers.finish()
    return (yield)


def pytest_unconfigure() -> None:
    servers.stop()
