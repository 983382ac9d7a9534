"""Weir as the gateway benchmark visits it: PostgreSQL, Valkey, tables, a parent and its worker."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg

from control.management.local.account import server_account
from control.management.local.ports import free_port
from control.management.local.postgres import Postgres
from control.management.local.valkey import Valkey
from tests.bench.report import ROOT
from tests.bench.targets import OTHER_CORE, Server, pinned, start

SHIPPED_SECONDS_MAX = 120
_SECRET = "a secret of one benchmark"  # opens nothing: its home is gone when it ends


class Booked(NamedTuple):
    """What the ledger holds, or what it should."""

    events: int
    tokens: int


@contextmanager
def a_place() -> Iterator["Place"]:
    """Its servers run, on empty tables, and its folder lasts until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # the servers' account passes through
        place = Place(folder)
        try:
            place.serve()
            yield place
        finally:
            for server in reversed(place.servers):
                server.stop()


class Place:
    """`servers` are all that must be stopped, `stores` those whose CPU time is told apart."""

    def __init__(self, folder: Path) -> None:
        account = server_account()
        self.servers: list[Server] = []
        self.folder = folder
        self._postgres = Postgres(folder, free_port(), account)
        self._valkey = Valkey(folder, free_port(), account, throwaway=True)
        self._environment = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")} | {
            "WEIR_SECRET": _SECRET,
            "WEIR_DATABASE_URL": self._postgres.url,
            "WEIR_REDIS_URL": self._valkey.url,
        }

    @property
    def stores(self) -> list[Server]:
        return [server for server in self.servers if server.name in ("postgres", "valkey")]

    @property
    def environment(self) -> dict[str, str]:
        """Of what is started here beside the gateway."""
        return self._environment | {"WEIR_HOME": str(self.folder / "tables")}

    def begin(self, engine_port: int, bare_port: int) -> None:
        self.serve()
        self.run(f"seed({engine_port}, {bare_port})")

    def serve(self) -> None:
        """The servers, and empty tables."""
        self._postgres.initialised(self._postgres.initialise())
        self._valkey.prepare()
        for server in (self._postgres, self._valkey):
            argv = server.argv()
            started = start(server.name, argv, server.port, core=OTHER_CORE, **server.popen)
            self.servers.append(started)
            while not server.ready():
                time.sleep(0.05)
        self._manage("migrate", "--verbosity", "0")

    def gateway(self, name: str, processes: int = 1) -> Server:
        """Each has a home of its own, as on another host."""
        port = free_port()
        environment = self._environment | {
            "WEIR_HOME": str(self.folder / name),
            "WEIR_GATEWAY_PORT": str(port),
            "WEIR_GATEWAY_PROCESSES": str(processes),
        }
        argv = [sys.executable, str(ROOT / "manage.py"), "gateway"]
        server = start(name, argv, port, env=environment)
        self.servers.append(server)
        return server

    def run(self, statement: str, module: str = "seed") -> str:
        """Something of tests/bench/MODULE.py, in a process that has the tables."""
        code = f"from tests.bench.{module} import *; print({statement})"
        return self._manage("shell", "--no-imports", "-c", code).strip().rpartition("\n")[2]

    def booked(self) -> Booked:
        with psycopg.connect(self._postgres.url) as connection:
            query = "SELECT count(*), coalesce(sum(output_tokens), 0) FROM control_usageevent"
            events, tokens = connection.execute(query).fetchone()
        return Booked(events, int(tokens))

    def when_booked(self, wanted: Booked) -> Booked:
        """What is booked once it is as it should be, or after as long as shipping may take."""
        deadline = time.monotonic() + SHIPPED_SECONDS_MAX
        while (found := self.booked()) != wanted and time.monotonic() < deadline:
            time.sleep(0.5)
        return found

    def _manage(self, *words: str) -> str:
        argv = pinned(OTHER_CORE, [sys.executable, str(ROOT / "manage.py"), *words])
        done = subprocess.run(
            argv, check=True, stdout=subprocess.PIPE, env=self.environment, cwd=ROOT
        )
        return done.stdout.decode()
