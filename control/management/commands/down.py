"""`weir down`: stop this home's processes in order, then its engines."""

import signal
import subprocess
import time
from argparse import ArgumentParser

import psutil
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from control.management.local import children
from control.management.local.home import Home
from control.management.local.instance import KEEP_ENGINES

STOPPING_SECONDS_MAX = 240


class Command(BaseCommand):
    help = "Stop Weir on this machine, engines too."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--keep-engines", action="store_true", help="engines go on, for the next `weir up`"
        )

    def handle(self, *, keep_engines: bool, **options) -> None:
        home = Home(settings.WEIR_HOME)
        if home.is_claimed():
            self._stop(home, keep_engines)
            return
        engines = any((home.path / "engines").glob("*/engine.json"))
        if engines and not keep_engines:
            self.stderr.write(f"no supervisor runs in {home.path}: stopping its engines")
            argv = children.engines_stop().argv
            subprocess.run(argv, cwd=settings.BASE_DIR, check=True, timeout=STOPPING_SECONDS_MAX)
        else:
            self.stderr.write(f"Weir does not run in {home.path}")

    def _stop(self, home: Home, keep_engines: bool) -> None:
        pid = home.running().pid
        try:
            supervisor = psutil.Process(pid)
            supervisor.send_signal(KEEP_ENGINES if keep_engines else signal.SIGTERM)
        except psutil.NoSuchProcess:
            return  # it ended meanwhile
        except psutil.AccessDenied:
            raise CommandError(f"Weir in {home.path} runs as another account (pid {pid})") from None
        deadline = time.monotonic() + STOPPING_SECONDS_MAX
        while _runs(supervisor):
            if time.monotonic() > deadline:
                raise CommandError(
                    f"pid {pid} still stops after {STOPPING_SECONDS_MAX} s: see logs/up.log; "
                    f"`kill -9 {pid}` ends all but the engines"
                )
            time.sleep(0.1)
        self.stderr.write("stopped" + (", engines stay" if keep_engines else ""))


def _runs(process: psutil.Process) -> bool:
    """A zombie has ended: what started it in the background may never ask."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
