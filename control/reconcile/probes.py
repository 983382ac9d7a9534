"""Probes of external engines: two good ones in a row make ready, three bad ones unhealthy."""

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from threading import Event, Thread

from django.db import connection
from django.utils import timezone

from control.fleet import engine_http
from control.fleet.engine_http import Address, Answer
from control.models import IllegalMove, Replica, Version
from control.models.sealing import opened
from control.reconcile import streaks
from control.reconcile.streaks import Streak
from control.states import ReplicaState
from control.telemetry.outages import DATABASE_AWAY, Outage

EVERY_SECONDS = 1.0
PROBES_AT_ONCE = 8
BY = "probe"
PROBED = (ReplicaState.STARTING, ReplicaState.READY, ReplicaState.UNHEALTHY)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Target:
    replica: Replica
    address: Address


class Probes:
    """Remembers how many probes in a row were good or bad; starts at none."""

    def __init__(self) -> None:
        self._streaks: dict[int, Streak] = {}
        self._stopping = Event()
        self._pool = ThreadPoolExecutor(PROBES_AT_ONCE, thread_name_prefix="probe")
        self._thread = Thread(target=self._run, name="external probes", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def round(self, at: datetime) -> None:
        """One probe of each, side by side: a slow engine delays the round, no longer than 4 s."""
        found = targets()
        answers = self._pool.map(lambda target: engine_http.probe(target.address), found)
        for target, answer in zip(found, answers, strict=True):
            self._judge(target.replica, answer, at)
        living = {target.replica.pk for target in found}
        self._streaks = {pk: self._streaks[pk] for pk in self._streaks if pk in living}

    def _judge(self, replica: Replica, answer: Answer, at: datetime) -> None:
        streak = streaks.streak(self._streaks.get(replica.pk), answer.good)
        self._streaks[replica.pk] = streak
        to = streaks.after_probe(ReplicaState(replica.state), streak)
        if to is None:
            _note(replica, answer)
            return
        try:
            replica.move(to, reason=answer.reason, by=BY, at=at)
        except IllegalMove as error:
            log.info("%s has moved on: %s", replica, error)

    def _run(self) -> None:
        outage = Outage(log, "external engines are not probed")
        while not self._stopping.wait(EVERY_SECONDS):
            try:
                self.round(timezone.now())
                outage.is_over()
            except DATABASE_AWAY as error:
                outage.goes_on(error)
                connection.close()
            except Exception:
                log.exception("a round of probes failed; the next one begins anew")


def targets(states: Iterable[ReplicaState] = PROBED) -> list[Target]:
    rows = Replica.objects.filter(
        node=None, state__in=states, version__engine__kind="external"
    ).select_related("deployment", "version__model")
    return [Target(row, _address(row.version)) for row in rows.order_by("pk")]


def _address(version: Version) -> Address:
    # A key sealed under another WEIR_SECRET is none: the engine refuses it, and that is shown.
    return Address(version.upstream.url, version.served_name, opened(version.upstream_key) or "")


def _note(replica: Replica, answer: Answer) -> None:
    """Why it is not ready yet, where people look; written when it changed."""
    if not answer.good and replica.reason != answer.reason:
        Replica.objects.filter(pk=replica.pk, state=replica.state).update(reason=answer.reason)
