"""What is away is said once, and once when it is back: not with each try."""

import logging
from threading import Lock

import psycopg
from django.db import InterfaceError, OperationalError

# Of what is raised for a database that does not answer; not for one that refuses a statement.
DATABASE_AWAY = (
    OperationalError,
    InterfaceError,
    psycopg.OperationalError,
    psycopg.InterfaceError,
)


class Outage:
    """Of one thing, as one process meets it; from any thread."""

    def __init__(self, log: logging.Logger, what: str) -> None:
        self._log, self._what = log, what
        self._lock = Lock()
        self._lasts = False

    def goes_on(self, error: BaseException) -> None:
        with self._lock:
            began, self._lasts = not self._lasts, True
        if began:
            why = str(error).strip().partition("\n")[0] or type(error).__name__
            self._log.warning("%s: %s", self._what, why)

    def is_over(self) -> None:
        if self._lasts:
            with self._lock:
                ended, self._lasts = self._lasts, False
            if ended:
                self._log.warning("over: %s", self._what)
