"""Calls that failed, for the log: some a second, and how many more there were."""

import logging
from collections.abc import Callable

from control.metering.records import Close
from control.states import Outcome

log = logging.getLogger(__name__)

_FINE = frozenset({Outcome.COMPLETE, Outcome.CLIENT_CLOSED})


class Failures:
    def __init__(self, per_second: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._clock = clock
        self._second = 0
        self._told = self._left_out = 0

    def ended(self, close: Close, code: str) -> None:
        """`code` is of the refusal that the call ended with."""
        if close.outcome in _FINE and close.status < 500:
            return
        now = self._clock()
        if int(now) != self._second:
            self.sweep(now)
            self._second, self._told = int(now), 0
        self._told += 1
        if self._told > self._per_second:
            self._left_out += 1
            return
        log.warning(
            "call %s ended as %s with %s on replica %s",
            *(close.call_id, close.outcome, code or close.status, close.replica_id),
            # Never what was asked or answered.
            extra={
                "fields": {
                    "outcome": close.outcome,
                    "code": code,
                    "status": close.status,
                    "route": close.route,
                    "replica": close.replica_id,
                    "attempts": close.attempts,
                }
            },
        )

    def sweep(self, now: float) -> None:
        """Say what was left out, once its second is over."""
        if self._left_out and int(now) != self._second:
            log.warning("%d more calls failed within a second", self._left_out)
            self._left_out = 0
