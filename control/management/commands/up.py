"""`weir up`: everything of one machine under one supervisor, ending with a card."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from pathlib import Path

import yaml
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from control.management.local import children
from control.management.local.account import NoAccount
from control.management.local.external import NotReachable
from control.management.local.home import CannotUseHome, Claimed, Home, NotEnoughDisk
from control.management.local.instance import Instance, PortTaken
from control.management.local.logs import Log
from control.management.local.ports import NoFreePort
from control.management.local.postgres import ServerCannotStart
from control.management.local.processes import DidNotStart

QUICKSTART = settings.BASE_DIR / "examples" / "quickstart.yaml"
DISK_BYTES_MIN = 10**9
DISK_BYTES_ENGINE = 8 * 10**9
SERVING_SECONDS_MAX = 180
LINE_CHARACTERS_MAX = 300
REFUSALS = (
    CannotUseHome,
    Claimed,
    NoAccount,
    NoFreePort,
    NotEnoughDisk,
    NotReachable,
    PortTaken,
    ServerCannotStart,
)


class Command(BaseCommand):
    help = "Start Weir on this machine: servers, gateway, console, workers, and a first model."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--detach", action="store_true", help="go on in the background")
        parser.add_argument(
            "--service", type=Path, default=QUICKSTART, help="what to apply (default: %(default)s)"
        )
        parser.add_argument(
            "--processes-only", action="store_true", help="apply nothing, show no card"
        )

    def handle(self, *, detach: bool, service: Path, processes_only: bool, **options) -> None:
        home = Home(settings.WEIR_HOME)
        try:
            wanted = None if processes_only else self._read(service)
            home.make()
            self._require_disk(home, wanted)
            if detach:
                self._in_background(home, service)
            else:
                self._in_foreground(home, service if wanted is not None else None)
        except REFUSALS as refusal:
            raise CommandError(str(refusal)) from None

    def _read(self, service: Path) -> dict:
        """Only what is asked of it before anything runs; `weir apply` judges the rest."""
        try:
            return yaml.safe_load(service.read_text()) or {}
        except OSError as error:
            raise CommandError(f"cannot read {service}: {error.strerror}") from None
        except yaml.YAMLError as error:
            raise CommandError(f"{service} is not YAML: {error}") from None

    def _require_disk(self, home: Home, wanted: dict | None) -> None:
        needs_engine = wanted is not None and _needs_engine(wanted)
        if needs_engine and not any(settings.WEIR_RUNTIMES.glob("*/bin/python")):
            home.require_disk(DISK_BYTES_ENGINE, "for an engine, its environment and a model")
        else:
            home.require_disk(DISK_BYTES_MIN, "for the database and logs")

    def _in_foreground(self, home: Home, service: Path | None) -> None:
        with home.claim():
            log = Log(home.logs / "up.log")
            instance = Instance(home, lambda line: self._say(log, line))
            self._say(log, f"weir {settings.VERSION} in {home.path}")
            failure = asyncio.run(
                instance.live(lambda: children.welcome(service.absolute()) if service else None)
            )
            self._say(log, "stopped")
            log.close()
        if failure:
            raise CommandError(_explain(home, failure))

    def _in_background(self, home: Home, service: Path) -> None:
        if home.is_claimed():
            home.claim()
        with (home.logs / "up.err").open("w") as errors:
            supervisor = subprocess.Popen(
                [sys.executable, children.MANAGE, "up", "--processes-only"],
                cwd=settings.BASE_DIR,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        try:
            self._wait_until_serving(home, supervisor)
            said = subprocess.run(
                [
                    *(sys.executable, children.MANAGE, "welcome", "--no-wait"),
                    *("--service", str(service.absolute())),
                ],
                cwd=settings.BASE_DIR,
                check=False,
                timeout=SERVING_SECONDS_MAX,
            )
        except BaseException:
            _end(supervisor)
            raise
        if said.returncode:
            _end(supervisor)
            raise CommandError(f"{service} could not be applied: everything was stopped again")

    def _wait_until_serving(self, home: Home, supervisor: subprocess.Popen) -> None:
        deadline = time.monotonic() + SERVING_SECONDS_MAX
        while time.monotonic() < deadline:
            running = home.running()
            if running.pid == supervisor.pid and running.stage == "ready":
                return
            if supervisor.poll() is not None:
                raise CommandError(home.read("logs/up.err").removeprefix("CommandError: ").strip())
            time.sleep(0.1)
        raise CommandError(f"not serving after {SERVING_SECONDS_MAX} s: see {home.logs}/up.log")

    def _say(self, log: Log, line: str) -> None:
        """The terminal may be gone (SIGHUP): that must not keep us from stopping in order."""
        log.feed(line + "\n")
        with contextlib.suppress(OSError):
            self.stdout.write(line)
            self.stdout.flush()


def _needs_engine(wanted: dict) -> bool:
    models = wanted.get("models") or [] if isinstance(wanted, dict) else []
    versions = [v for m in models if isinstance(m, dict) for v in m.get("versions") or []]
    engines = [v.get("engine") for v in versions if isinstance(v, dict)]
    return any(isinstance(e, dict) and e.get("kind") not in ("external", "stub") for e in engines)


def _explain(home: Home, failure: DidNotStart) -> str:
    if failure.name == "welcome":  # it has said why, on this terminal
        return "nothing serves: everything was stopped again"
    lines = "".join(f"\n    {line[:LINE_CHARACTERS_MAX]}" for line in failure.lines)
    return f"{failure}{lines}\nMore in {home.logs}/{failure.name}.log"


def _end(supervisor: subprocess.Popen) -> None:
    if supervisor.poll() is None:
        supervisor.send_signal(signal.SIGTERM)
        supervisor.wait()
