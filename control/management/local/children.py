"""Which processes an instance consists of, and how each says that it is ready."""

import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx
from django.conf import settings

from control.management.gateways import limits_given
from control.management.local.postgres import Postgres
from control.management.local.processes import Child
from control.management.local.valkey import Valkey

PYTHON = sys.executable
MANAGE = str(settings.BASE_DIR / "manage.py")
PROBE_SECONDS_MAX = 2
GATEWAY_SETTLING_SECONDS = 15  # once it has let running streams end, whose time is a limit
# The rest finish what they are doing.
WORKER_GRACE_SECONDS = 20
ENGINES_GRACE_SECONDS = 120


def server(one: Postgres | Valkey) -> Child:
    return Child(
        one.name,
        tuple(one.argv()),
        ready=one.ready,
        stop_signal=one.stop_signal,
        death_signal=one.stop_signal,  # time to write what it holds
        grace_seconds=one.grace_seconds,
        popen=one.popen,
    )


def migrate() -> Child:
    return _python("migrate", MANAGE, "migrate", "--no-input", "--verbosity", "1")


def web() -> Child:
    return _python("web", MANAGE, "web", ready=answers(f"{settings.WEIR_CONSOLE_URL}/health"))


def gateway(listeners: Sequence[socket.socket]) -> Child:
    """Its sockets are ours, so that nobody is refused while it is started again."""
    files = tuple(one.fileno() for one in listeners)
    return _python(
        "gateway",
        *(MANAGE, "gateway", "--listeners", ",".join(map(str, files))),
        ready=answers(f"{settings.WEIR_GATEWAY_URL}/health"),
        # Running calls may end when only the supervisor died.
        death_signal=signal.SIGTERM,
        grace_seconds=limits_given().drain_seconds + GATEWAY_SETTLING_SECONDS,
        # Workers without a parent serve until those of the next one do.
        leaves_others=True,
        lends=tuple(listeners),
        files=files,
    )


def control() -> Child:
    return _python(
        "control",
        *("-m", "celery", "-q", "-A", "control.celery:app", "worker", "-Q", "control"),
        *("-n", "control@%h", "--pool", "threads", "-c", "4"),
        *("--without-mingle", "--without-gossip"),
        grace_seconds=WORKER_GRACE_SECONDS,
    )


def scheduler(home: Path) -> Child:
    return _python(
        "scheduler",
        *("-m", "celery", "-q", "-A", "control.celery:app", "beat"),
        *("-s", str(home / "beat-schedule"), "--pidfile="),
    )


def node() -> Child:
    return _python("node", MANAGE, "node", grace_seconds=WORKER_GRACE_SECONDS)


def engines_stop() -> Child:
    """Ends when the engines of this home have been drained and stopped."""
    return _python("engines", MANAGE, "node", "--stop-engines", grace_seconds=ENGINES_GRACE_SECONDS)


def welcome(service: Path) -> Child:
    """Speaks to the terminal itself: what it shows (a key) belongs in no log."""
    return _python("welcome", MANAGE, "welcome", "--service", str(service), terminal=True)


def answers(address: str) -> Callable[[], bool]:
    def ready() -> bool:
        try:
            return httpx.get(address, timeout=PROBE_SECONDS_MAX, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    return ready


def _python(name: str, *argv: str, files: tuple[int, ...] = (), **options) -> Child:
    popen = {"cwd": settings.BASE_DIR, "pass_fds": files}
    return Child(name, (PYTHON, *argv), popen=popen, **options)
