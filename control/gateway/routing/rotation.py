"""Takes replicas out of the rotation when they fail, and brings them back when probes succeed."""

import logging
from collections.abc import Callable

from control.gateway.limits import Limits
from control.gateway.recording.metrics import Tally
from control.gateway.routing.health import DEATHS, Cause
from control.gateway.routing.live import Live
from control.gateway.routing.probes import Prober
from control.telemetry.messages import ReplicaSample

log = logging.getLogger(__name__)


def _nothing(*_args: object) -> None:
    return None


class Rotation:
    """`resize` gives a replica the slots that its health allows."""

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float],
        tally: Tally,
        resize: Callable[[Live], None],
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._tally = tally
        self._resize = resize
        self._prober = Prober(limits, clock, self._judged)
        self.on_change: Callable[[], None] = _nothing  # calls that wait may go now, or never will
        self.on_suspected: Callable[[Live], None] = _nothing  # it may have died with its calls
        self.on_death: Callable[[Live, bool], None] = _nothing  # it has, or has not

    def succeeded(self, live: Live, share: int) -> None:
        if live.health.succeeded(share):
            self._resize(live)

    def failed(self, live: Live, cause: Cause, *, alone: bool) -> None:
        now = self._clock()
        if cause is Cause.BUSY:
            live.refused_until = now + self._limits.busy_seconds
        elif cause is Cause.IMPOSTOR:
            self._tally.add("identity_mismatch_total")
        if live.health.failed(cause, now, alone=alone):
            self._left(live, cause, now)

    def heard(self, live: Live, said: ReplicaSample, at: float) -> None:
        """An engine has told of itself; one that does not get on is left, with its calls."""
        live.room.judge(said.preemptions_per_second)
        live.progress.note(said, at)
        now = self._clock()
        if not live.health.out and live.progress.is_stalled(
            at, live.oldest(now), self._limits.stall_seconds
        ):
            self.failed(live, Cause.STALLED, alone=False)
            for attempt in tuple(live.attempts):
                if attempt in live.attempts:  # the end of one may be that of others
                    attempt.time_out("The engine does not get on with its work.")

    def sweep(self, live: Live, now: float) -> None:
        if live.health.out and live.health.probe_at <= now:
            self._prober.start(live)

    def close(self) -> None:
        self._prober.close()

    def _left(self, live: Live, cause: Cause, now: float) -> None:
        log.warning("replica %d leaves the rotation: %s", live.id, cause)
        self._tally.add("ejections_total", reason=cause)
        self._resize(live)
        live.pool.doubt()
        if cause in DEATHS:
            self.on_suspected(live)
        if live.health.probe_at <= now:
            live.coming = True  # its calls wait for the moment that the answer takes
            self._prober.start(live)

    def _judged(self, live: Live, cause: Cause | None) -> None:
        live.coming = False
        self.on_death(live, cause in (Cause.UNREACHABLE, Cause.DIED))
        if cause is None:
            log.info("replica %d is well: it comes back slowly", live.id)
            live.health.returned()
            live.proof.holds()
        else:
            if cause is Cause.IMPOSTOR:
                self._tally.add("identity_mismatch_total")
            live.health.probe_failed(cause, self._clock())
        self._resize(live)
        self.on_change()
