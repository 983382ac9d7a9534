"""Threads of a node's watch: what hangs delays only itself, and nothing is done twice at once."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock
from time import monotonic

from django.db import connection

from control.telemetry.outages import DATABASE_AWAY, Outage

AT_ONCE = 7  # one of them waits for the others
ROW_SECONDS_MAX = 1.0
END_SECONDS_MAX = 8.0

log = logging.getLogger(__name__)

Task = tuple  # its name, a function, and what that is given


class Crew:
    def __init__(self, outage: Outage) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="look")
        self._busy: set[str] = set()
        self._pending: set[Future] = set()
        self._lock = Lock()
        self._outage = outage
        self._stopping = False

    def turn(self, name: str, function: Callable, *arguments: object) -> Future | None:
        """In a thread of its own. None: the one before is not over yet."""
        with self._lock:
            if name in self._busy or self._stopping:
                return None
            self._busy.add(name)
            done = self._pool.submit(self._work, function, *arguments)
            self._pending.add(done)
        done.add_done_callback(lambda future: self._over(name, future))
        return done

    def in_a_row(self, name: str, tasks: Sequence[Task]) -> list[Future | None]:
        """Quick ones share a thread: to wake one for each costs as much as what they do.

        While one of an earlier row hangs, each goes by itself.
        """
        if tasks and (row := self.turn(name, self._row, tasks)):
            return [row]
        return [self.turn(*task) for task in tasks]

    def stop(self) -> None:
        """What runs is waited for: a look that the interpreter's end cuts would only say so."""
        with self._lock:
            self._stopping = True
            pending = set(self._pending)
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait(pending, timeout=END_SECONDS_MAX)

    def _row(self, tasks: Sequence[Task]) -> None:
        began = monotonic()
        for name, function, *arguments in tasks:
            if monotonic() - began > ROW_SECONDS_MAX:
                return  # the rest has gone by itself since
            with self._lock:
                if name in self._busy or self._stopping:
                    continue
                self._busy.add(name)
            self._do(name, function, *arguments)

    def _do(self, name: str, function: Callable, *arguments: object) -> None:
        """Whose failure is no concern of those behind it."""
        try:
            function(*arguments)
        except DATABASE_AWAY as error:
            connection.close()
            self._outage.goes_on(error)
        except Exception:
            connection.close()
            log.exception("a look at %s failed", name)
        finally:
            with self._lock:
                self._busy.discard(name)

    def _work(self, function: Callable, *arguments: object) -> None:
        try:
            function(*arguments)
        finally:
            connection.close()

    def _over(self, name: str, future: Future) -> None:
        with self._lock:
            self._busy.discard(name)
            self._pending.discard(future)
        if future.cancelled() or not (error := future.exception()):
            return
        if isinstance(error, DATABASE_AWAY):
            self._outage.goes_on(error)
        else:
            log.error("a look at %s failed: %s", name, error, exc_info=error)
