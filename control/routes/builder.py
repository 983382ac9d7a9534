"""The snapshot's one builder: a thread that hears of changes and compiles what is behind."""

import logging
from collections.abc import Callable, Iterable
from threading import Event, Thread

import psycopg
from django.conf import settings
from django.db import connection
from django.utils import timezone

from control.models import SnapshotPart
from control.routes import compiler
from control.states import Part
from control.telemetry.outages import DATABASE_AWAY, Outage

POLL_SECONDS = 1.0  # a notification may be lost with its connection; a poll is not
RECONNECT_SECONDS = 1.0

log = logging.getLogger(__name__)


class Builder:
    """Any number may run: `compiler.build` locks the part's row, and the second finds it done."""

    def __init__(self, heard: Callable[[set[str]], None] | None = None) -> None:
        """`heard` is told which parts changed, after they were built."""
        self._heard = heard
        self._outage = Outage(log, "the snapshot is not built until the database is back")
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="snapshot builder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except DATABASE_AWAY as error:
                self._outage.goes_on(error)
                self._stopping.wait(RECONNECT_SECONDS)
            except Exception:
                log.exception("a part of the snapshot cannot be compiled; trying again")
                self._stopping.wait(RECONNECT_SECONDS)
            finally:
                connection.close()

    def _listen(self) -> None:
        # A connection of its own: one of the pool would be handed on while it listens.
        database = connection.settings_dict["NAME"]
        where = {"dbname": database, "autocommit": True}
        with psycopg.connect(settings.WEIR_DATABASE_URL, **where) as listener:
            listener.execute(f"LISTEN {SnapshotPart.CHANNEL_STALE}")
            build_all()
            self._outage.is_over()
            while not self._stopping.is_set():
                notes = listener.notifies(timeout=POLL_SECONDS, stop_after=1)
                parts = {note.payload for note in notes}
                build_all()
                if parts and self._heard:
                    self._heard(parts)


def build_all(parts: Iterable[Part] = tuple(Part)) -> list[Part]:
    """The parts that were behind and are built now."""
    return [part for part in parts if compiler.build(part, at=timezone.now())]
