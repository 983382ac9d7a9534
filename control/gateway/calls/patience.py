"""What one call does while it has no slot: it waits, for a replica or a model, and not for ever."""

from control.gateway import errors
from control.gateway.admission.answers import slow_down
from control.gateway.calls.journal import Journal
from control.gateway.errors import Refusal
from control.gateway.shared import Shared
from control.gateway.waiting import answers, rules
from control.gateway.waiting.queue import Waiter
from control.gateway.waiting.rules import Queued, Want
from control.routes.snapshot import RouteInfo
from control.states import Outcome


class Patience:
    def __init__(
        self, shared: Shared, route: RouteInfo, want: Want, journal: Journal, *, streams: bool
    ) -> None:
        self._shared = shared
        self._route = route
        self._want = want
        self._journal = journal
        self._streams = streams
        self._since: float | None = None  # when it began to wait

    @property
    def waits(self) -> bool:
        return self._since is not None

    def begin(self, waiter: Waiter) -> Refusal | None:
        """A place in the queue, or why it gets none."""
        shared = self._shared
        cold = None if self._is_ready() else self._cold_seconds()
        if cold == 0:
            return self._loading()
        pace = shared.replicas.pace(self._route) if cold is None else None
        if pace and (refused := self._crowded_out(pace)):
            return refused
        decision = shared.waiting.join(waiter, pace, cold_seconds=cold)
        self._journal.decided(decision)
        if isinstance(decision, Queued):
            self._since = shared.clock.now()
            if pace:
                shared.buckets.queued((self._want.pool, self._want.priority), pace.seconds)
            return None
        shared.tally.add("refused_at_arrival_total", priority=self._want.priority)
        return answers.refusal_of(decision, self._route.name)

    def _crowded_out(self, pace: rules.Pace) -> Refusal | None:
        """More came than its engines can do; what can start in its wait is no more than that."""
        bucket, want = self._route.bucket, self._want
        burst_seconds = bucket.burst_seconds if bucket else want.waiting_seconds
        pool = (want.pool, want.priority)
        refused = self._shared.buckets.crowded(pool, pace.seconds, burst_seconds)
        if refused is None:
            return None
        self._journal.decided(refused)
        return slow_down(refused, self._route.name)

    def without_replica(self) -> Refusal | None:
        """None can be called now. None is returned if it is worth to wait for one to be ready."""
        if self._is_ready():
            text = f"No replica of '{self._route.name}' answers at the moment."
            return errors.Overloaded(text, wait_seconds=self._shared.limits.eject_seconds)
        return None if self._cold_seconds() else self._loading()

    def started(self) -> None:
        """It has got a slot."""
        self._journal.marks.turn_at = now = self._shared.clock.now()
        if self._since is not None:
            self._shared.tally.observe("wait_seconds", now - self._since)

    def is_past_deadline(self) -> bool:
        return self._shared.clock.now() >= self._want.ends_by

    def ended(self) -> tuple[Refusal, Outcome]:
        """It has waited in vain."""
        if self.is_past_deadline():
            return answers.deadline_passed(), Outcome.DEADLINE
        if not self._is_ready():
            return self._loading(), Outcome.UPSTREAM_ERROR
        return answers.busy(self._route.name), Outcome.UPSTREAM_ERROR

    def _is_ready(self) -> bool:
        return self._shared.replicas.any_ready(self._route)

    def _cold_seconds(self) -> float:
        limits = self._shared.limits
        if not self._want.pool:
            return 0.0  # no deployment is behind the route: nothing will come
        return rules.cold_seconds(
            self._route.cold_start_seconds,
            limits.cold_start_seconds,
            whole_seconds_max=None if self._streams else limits.cold_start_whole_seconds,
        )

    def _loading(self) -> Refusal:
        text = f"The model behind '{self._route.name}' is not ready yet. Please try again shortly."
        return errors.ModelLoading(text, wait_seconds=self._shared.limits.loading_retry_seconds)
