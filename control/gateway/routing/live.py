"""One launch of one engine, as the calls of this process find it."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from control.gateway.bodies.wire import Ask
from control.gateway.errors import Refusal
from control.gateway.http1.pool import Pool
from control.gateway.http1.proof import Proof, Reply
from control.gateway.limits import Limits
from control.gateway.routing import identity, keys
from control.gateway.routing.caching import CacheHits, Density
from control.gateway.routing.candidates import Candidate
from control.gateway.routing.health import Health
from control.gateway.routing.room import kept_slots
from control.gateway.routing.stalls import Oldest, Progress
from control.routes.snapshot import ReplicaInfo
from control.states import Outcome

_URGENT_SWEEPS = 10  # seconds for which slots are kept after the last interactive call
_MARKS = 6  # one a second: longer than what an engine said is of use


class InFlight(Protocol):
    """A try of a call, at its engine or on the way there."""

    ask: Ask
    sent_at: float

    def is_at_engine(self) -> bool: ...

    def time_out(self, message: str) -> None: ...

    def leave(self, refusal: Refusal, outcome: Outcome) -> None: ...


class Live(Candidate):
    """Another launch is another object, with connections and a health of its own."""

    def __init__(self, info: ReplicaInfo, limits: Limits, clock: Callable[[], float]) -> None:
        super().__init__(info.id, info.slots, seed=keys.replica_seed(info.deployment, info.id))
        self.info = info
        self.key = ""
        self.heads: dict[str, bytes] = {}  # of requests, by endpoint; as long as nothing changes
        self.health = Health(limits)
        self.probing = False
        self.attempts: set[InFlight] = set()
        self.urgent_came = False  # an interactive call, since the last sweep
        self._quiet_sweeps = _URGENT_SWEEPS
        self.said_at = 0.0  # epoch seconds of the engine's last sample
        self.progress = Progress()
        self.cache_hits = CacheHits()
        self.density = Density()
        self._marks: deque[tuple[float, int]] = deque(maxlen=_MARKS)
        self.room.resize(info.kv_tokens)
        self.proof = Proof(
            lambda: identity.models_request(self.info, self.key),
            self._judge,
            limits=limits,
            clock=clock,
        )
        self.pool = Pool(
            info.host, info.port, tls=info.tls, limits=limits, clock=clock, proof=self.proof
        )

    def mark(self, now: float) -> None:
        """Remember how many calls it has now: what the engine says later is of about now."""
        self._marks.append((now, self.in_flight))

    def keep_slots(self) -> None:
        """Once a second: some slots are for interactive calls alone, while these come."""
        self._quiet_sweeps = 0 if self.urgent_came else self._quiet_sweeps + 1
        self.urgent_came = False
        self.kept = kept_slots(self.slots) if self._quiet_sweeps < _URGENT_SWEEPS else 0

    def in_flight_at(self, at: float) -> int:
        """Of our calls, those that the engine had counted then; the last mark before it says."""
        for marked_at, in_flight in reversed(self._marks):
            if marked_at <= at:
                return in_flight
        return 0

    def oldest(self, now: float) -> Oldest | None:
        there = [attempt for attempt in self.attempts if attempt.is_at_engine()]
        if not there:
            return None
        first = min(there, key=lambda attempt: attempt.sent_at)
        return Oldest(now - first.sent_at, first.ask.input_estimate)

    @property
    def is_ours(self) -> bool:
        """It is launched anew when it ends; whether another's comes back, nobody knows."""
        return self.info.engine != identity.EXTERNAL

    @property
    def failures(self) -> int:
        return self.health.failures

    def _judge(self, reply: Reply | None) -> str | None:
        return identity.judge_models(self.info, reply)
