"""Credit asked of the database in a thread of its own: the loop never waits for it."""

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import psycopg

from control.metering import credit
from control.telemetry.outages import Outage

log = logging.getLogger(__name__)

_RENEW_SECONDS = 60.0
_STATEMENT_MS_MAX = 10_000
_OPTIONS = f"-c statement_timeout={_STATEMENT_MS_MAX}"
APPLICATION = "weir credit"  # as PostgreSQL lists its connections

Work = Callable[[psycopg.Connection], Any]
OnAnswer = Callable[[Any], None]
Post = Callable[..., object]  # runs a function with its arguments, on the loop


class Away(Exception):
    """The database did not do it; or it did, and could not say so."""


class Lender(threading.Thread):
    """Does one thing after another. It starts, and connects, when there is something to do."""

    def __init__(self, *, url: str, owner: str) -> None:
        super().__init__(name="credit", daemon=True)
        self.owner = owner
        self.on_called_in: Callable[[int], None] = _ignored  # an account; told on the loop
        self._url = url
        self._outage = Outage(log, "no credit can be asked for")
        self._waiting: deque[tuple[Work, OnAnswer, Post]] = deque()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._database: psycopg.Connection | None = None
        self._post: Post | None = None
        self._stopping = False
        self._renew_at = time.monotonic() + _RENEW_SECONDS

    def warm(self) -> None:
        """Connect before the first call has to wait for it."""
        if not self.is_alive() and not self._stopping:
            self._waiting.append((_nothing, _ignored, _dropped))
            self.start()

    def ask(self, work: Work, on_answer: OnAnswer, post: Post) -> None:
        """`on_answer` gets what `work` returns, or an Away, through `post`."""
        if self._stopping:
            return
        self._waiting.append((work, on_answer, post))
        self._post = post
        if not self.is_alive():
            self.start()
        os.eventfd_write(self._wake, 1)

    def stop(self, seconds: float) -> None:
        """When all that was asked is done, or the time is over."""
        self._stopping = True
        if self.is_alive():
            os.eventfd_write(self._wake, 1)
            self.join(seconds)

    def run(self) -> None:
        while True:
            while self._waiting:
                self._do(*self._waiting.popleft())
            if self._stopping:
                break
            self._listen()
        self._disconnect()

    def _do(self, work: Work, on_answer: OnAnswer, post: Post) -> None:
        try:
            answer = work(self._connected())
            self._outage.is_over()
        except (psycopg.Error, OSError) as error:
            self._outage.goes_on(error)
            self._disconnect()
            answer = Away()
        except Exception:
            log.exception("credit could not be asked for")
            answer = Away()
        try:
            post(on_answer, answer)
        except RuntimeError:  # the loop has ended, and nobody waits any more
            self._stopping = True

    def _connected(self) -> psycopg.Connection:
        if self._database is None:
            self._database = psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=2,
                options=_OPTIONS,
                application_name=APPLICATION,
            )
            self._database.add_notify_handler(self._on_notify)
            self._database.execute(f"LISTEN {credit.CHANNEL_SHORT}")
        return self._database

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _listen(self) -> None:
        """Until there is something to do, or another gateway calls credit in."""
        files = [self._wake]
        if self._database is not None:
            files.append(self._database.fileno())
        ready, _, _ = select.select(files, [], [], _RENEW_SECONDS)
        if self._wake in ready:
            os.eventfd_read(self._wake)
        if self._database is None:
            return
        try:
            if time.monotonic() >= self._renew_at:
                self._renew_at = time.monotonic() + _RENEW_SECONDS
                credit.renew(self._database, self.owner)
            elif files[1] in ready:
                self._database.execute("SELECT 1")  # reads what has come, and tells the handler
        except (psycopg.Error, OSError):
            self._disconnect()

    def _on_notify(self, notify: psycopg.Notify) -> None:
        account, _, owner = notify.payload.partition(" ")
        is_others = self._post is not None and owner != self.owner and account.isdigit()
        if notify.channel == credit.CHANNEL_SHORT and is_others:
            self._post(self.on_called_in, int(account))


def _ignored(_answer: object) -> None:
    """Nobody listens yet."""


def _nothing(_database: psycopg.Connection) -> None:
    """But a connection is there for it."""


def _dropped(*_what: object) -> None:
    """Nobody waits for the answer."""
