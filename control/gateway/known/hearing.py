"""Hears of revoked keys at once: on a connection that waits for nothing else."""

import logging
import threading
from collections.abc import Callable

import psycopg

from control.models import SnapshotPart

log = logging.getLogger(__name__)

AGAIN_SECONDS = 0.3  # after a lost connection: a revocation has a second
_WAIT_SECONDS = 0.3  # until it looks whether it is to stop
# Whoever only listens would never learn that the other end is gone.
_SIGNS_OF_LIFE = {
    "connect_timeout": 3,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}


def connected(url: str) -> psycopg.Connection:
    return psycopg.connect(url, autocommit=True, **_SIGNS_OF_LIFE)


class Ear(threading.Thread):
    """`on_revoked` is told in its thread. What is missed while the database is away, or before
    it listens, is found by whoever compares versions."""

    def __init__(
        self, url: str, on_revoked: Callable[[str], None], stopping: threading.Event
    ) -> None:
        super().__init__(name="revocations", daemon=True)
        self._url = url
        self._on_revoked = on_revoked
        self._stopping = stopping

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except (psycopg.Error, OSError):
                self._stopping.wait(AGAIN_SECONDS)  # the snapshot's own thread says so in the log
            except Exception:
                log.exception("revocations could not be heard; trying again")
                self._stopping.wait(AGAIN_SECONDS)

    def _listen(self) -> None:
        with connected(self._url) as database:
            database.execute(f"LISTEN {SnapshotPart.CHANNEL_REVOKED}")
            while not self._stopping.is_set():
                for note in database.notifies(timeout=_WAIT_SECONDS, stop_after=1):
                    self._on_revoked(note.payload)
