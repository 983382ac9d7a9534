"""The life of one instance: make its home, start everything in order, stop it in reverse."""

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
from django.conf import settings

from control.gateway.process import sockets
from control.management.local import children
from control.management.local.account import server_account
from control.management.local.external import require_database, require_redis
from control.management.local.home import Home, Running
from control.management.local.ports import free_port, holder, why_not
from control.management.local.postgres import Postgres
from control.management.local.processes import Child, DidNotStart, Supervisor
from control.management.local.valkey import Valkey

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
KEEP_ENGINES = signal.SIGUSR1


class PortTaken(Exception):
    """Says which port, by what if that can be read, and which variable chooses another."""


class Instance:
    """Everything but PostgreSQL and Valkey of the operator's own runs under this supervisor."""

    def __init__(self, home: Home, say: Callable[[str], None]) -> None:
        self.home, self.say = home, say
        self.supervisor = Supervisor(home.logs, say, self._tell)
        self.running = Running(
            pid=psutil.Process().pid,
            stage="starting",
            console_url=settings.WEIR_CONSOLE_URL + "/",
            gateway_url=settings.WEIR_GATEWAY_URL,
        )
        self.keep_engines = False
        self.served = False

    async def live(self, while_up: Callable[[], Child | None]) -> DidNotStart | None:
        """Start, then run until told to stop; `while_up` may name one command to run meanwhile."""
        self._listen()
        failure = None
        try:
            await self._start()
            if not self.supervisor.stopping.is_set():
                await self._stay(while_up())
            failure = self.supervisor.failure
        except DidNotStart as error:
            failure = error
        finally:
            await self._stop()
        self._stage("failed" if failure else "stopped", str(failure or ""))
        return failure

    async def _start(self) -> None:
        await asyncio.to_thread(self._end_leftovers)
        self._require_ports()
        await asyncio.to_thread(self._require_external)
        servers = self._servers()
        for one in servers:
            await asyncio.to_thread(one.prepare)
        self._connect(servers)
        await self.supervisor.start(*(children.server(one) for one in servers))
        await self._unless_stopping(self.supervisor.run, children.migrate())
        await self._unless_stopping(
            self.supervisor.start, children.web(), children.gateway(self._listeners())
        )
        await self._unless_stopping(
            self.supervisor.start,
            children.control(),
            children.scheduler(self.home.path),
            children.node(),
        )
        if not self.supervisor.stopping.is_set():
            self.served = True
            self._stage("ready")

    async def _unless_stopping(self, step: Callable, *steps: Child) -> None:
        if not self.supervisor.stopping.is_set():
            await step(*steps)

    async def _stay(self, command: Child | None) -> None:
        if command:
            await self.supervisor.run(command)
        await self.supervisor.stopping.wait()

    async def _stop(self) -> None:
        self._stage("stopping")
        servers = 1 if self.supervisor.stages else 0
        await self.supervisor.stop(from_stage=servers)
        if self.served and not self.keep_engines:
            await self._stop_engines()
        await self.supervisor.stop()
        self.home.disconnect()

    async def _stop_engines(self) -> None:
        ending = Supervisor(self.home.logs, self.say)
        ending.hurry = self.supervisor.hurry
        try:
            await ending.run(children.engines_stop())
        except DidNotStart as error:
            self.say(f"engines    could not be stopped: {error}")
            for line in error.lines:
                self.say(f"           {line}")

    def _listen(self) -> None:
        """Also when we were started with SIGINT ignored, as shells do for jobs with `&`."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*STOPS, KEEP_ENGINES))
        loop = asyncio.get_running_loop()
        for number in STOPS:
            loop.add_signal_handler(number, self._asked_to_stop)
        loop.add_signal_handler(KEEP_ENGINES, self._asked_to_stop, True)

    def _asked_to_stop(self, keep_engines: bool = False) -> None:
        if self.supervisor.stopping.is_set():
            self.say("stopping at once")
            self.supervisor.hurry.set()
            return
        self.keep_engines = keep_engines
        self.say("stopping" + (", engines stay" if keep_engines else ""))
        self.supervisor.stopping.set()

    def _end_leftovers(self) -> None:
        """A supervisor killed with -9 took its children along; one may still be on its way."""
        for name, process in self.home.running().children.items():
            found = process.find()
            if not found:
                continue
            self.say(f"{name:<10} left by a supervisor that was killed: ending it")
            with suppress(psutil.NoSuchProcess):
                # PostgreSQL and Valkey were told to stop in order; the rest holds nothing.
                if name not in ("postgres", "valkey"):
                    for one in (*found.children(recursive=False), found):
                        one.kill()
                psutil.wait_procs([found], timeout=30)

    def _require_ports(self) -> None:
        wanted = {
            "WEIR_CONSOLE_PORT": settings.WEIR_CONSOLE_PORT,
            "WEIR_GATEWAY_PORT": settings.WEIR_GATEWAY_PORT,
        }
        if len(set(wanted.values())) < len(wanted):
            raise PortTaken(f"{' and '.join(wanted)} are the same: choose two ports")
        for variable, port in wanted.items():
            if why := why_not(port, settings.WEIR_BIND):
                by, other = holder(port), free_port(set(wanted.values()))
                taken = f"port {port} is taken by {by}"
                refused = f"cannot listen on port {port} of {settings.WEIR_BIND}: {why}"
                raise PortTaken(
                    f"{taken if by else refused}; choose another with {variable}={other}"
                    f"{'' if by else ', or another WEIR_BIND'}"
                )

    def _listeners(self) -> list[socket.socket]:
        bind, port = settings.WEIR_BIND, settings.WEIR_GATEWAY_PORT
        return sockets.listening(bind, port, settings.WEIR_GATEWAY_PROCESSES)

    def _require_external(self) -> None:
        if settings.WEIR_DATABASE_IS_EXTERNAL:
            require_database(settings.WEIR_DATABASE_URL)
        if settings.WEIR_REDIS_IS_EXTERNAL:
            require_redis(settings.WEIR_REDIS_URL)

    def _servers(self) -> list[Postgres | Valkey]:
        account = server_account(settings.WEIR_RUN_AS)
        taken: set[int] = {settings.WEIR_CONSOLE_PORT, settings.WEIR_GATEWAY_PORT}
        kinds = [
            (Postgres, settings.WEIR_DATABASE_IS_EXTERNAL),
            (Valkey, settings.WEIR_REDIS_IS_EXTERNAL),
        ]
        servers = []
        for kind, external in kinds:
            if external:
                continue
            place: Path = self.home.server_place(account)
            servers.append(kind(place, free_port(taken), account))
            taken.add(servers[-1].port)
        return servers

    def _connect(self, servers: list[Postgres | Valkey]) -> None:
        urls = {"postgres": settings.WEIR_DATABASE_URL, "valkey": settings.WEIR_REDIS_URL}
        urls |= {one.name: one.url for one in servers}
        taken = {settings.WEIR_CONSOLE_PORT, settings.WEIR_GATEWAY_PORT}
        taken |= {one.port for one in servers}
        self.home.connect(
            pid=self.running.pid,
            database_url=urls["postgres"],
            redis_url=urls["valkey"],
            bind=settings.WEIR_BIND,
            console_port=settings.WEIR_CONSOLE_PORT,
            gateway_port=settings.WEIR_GATEWAY_PORT,
            metrics_port=settings.WEIR_METRICS_PORT or free_port(taken),
        )

    def _stage(self, stage: str, detail: str = "") -> None:
        self.running.stage, self.running.detail = stage, detail
        self._tell()

    def _tell(self) -> None:
        self.running.children = self.supervisor.children
        self.home.tell(self.running)
