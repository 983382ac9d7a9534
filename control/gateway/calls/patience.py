"""One call while it has no slot: it waits, for a replica or a model, and not for ever."""

import logging
from collections.abc import Callable
from typing import TypeVar

from control.gateway import errors
from control.gateway.admission.answers import slow_down
from control.gateway.calls.attempt import Attempt
from control.gateway.calls.caller import WaitingCall
from control.gateway.calls.coming import Coming
from control.gateway.calls.journal import Journal
from control.gateway.calls.outliving import Lost, Outlives, is_gone
from control.gateway.errors import Refusal
from control.gateway.http1.request import Request
from control.gateway.routing.rules import Full, NoneReady
from control.gateway.shared import Shared
from control.gateway.waiting import answers, progress, rules
from control.gateway.waiting.progress import Place
from control.gateway.waiting.rules import Queued
from control.routes.snapshot import RouteInfo
from control.states import Outcome

log = logging.getLogger(__name__)

T = TypeVar("T")


class Patience:
    """What the queue knows of a call: it asks this one whether it can go, or must."""

    def __init__(
        self,
        caller: WaitingCall,
        shared: Shared,
        route: RouteInfo,
        journal: Journal,
        request: Request,
        *,
        streams: bool,
    ) -> None:
        self.want = caller.want
        self.yields = 0
        self._caller = caller
        self._shared = shared
        self._route = route
        self._journal = journal
        self._streams = streams
        self._coming = Coming(shared, route, caller.want, streams=streams)
        self._request = request
        self._since: float | None = None  # when it began to wait
        self._lost: Lost | None = None  # the engine that it was at

    def arrive(self) -> None:
        """Go at once, or get a place in the queue, or learn why there is none."""
        if not self._shared.waiting.may_go(self.want) or not self.on_turn():
            self._wait()

    def part(self) -> None:
        """It has been served: what points back is let go, so that nobody has to look for it."""
        self._caller = None

    @property
    def is_told(self) -> bool:
        asked = self._request.headers.get(b"x-weir-progress") == b"1"
        return self._streams and (asked or self._route.progress)

    def ends_silence(self, now: float) -> bool:
        """Its headers were held for as long as a refusal is better than a broken stream."""
        after = self._route.commit_after_seconds
        after = self.want.waiting_seconds if after is None else after
        since = self._request.received_at if self._since is None else self._since
        return self._streams and now - since >= after

    def is_past_deadline(self) -> bool:
        return self._shared.clock.now() >= self.want.ends_by

    def allows_another(self, tries: int) -> bool:
        """After so many."""
        return tries < self._shared.limits.tries + self.yields and not self.is_past_deadline()

    def outlives(self, attempt: Attempt, refusal: Refusal) -> bool:
        """It waits for another engine, as if it came now: the first of its tenant's."""
        shared, now = self._shared, self._shared.clock.now()
        if not is_gone(attempt):
            return False
        serves, waiting_seconds = shared.replicas.can_serve(self._route), self.want.waiting_seconds
        seconds = waiting_seconds if serves else self._coming.seconds()
        # What is launched anew is idle: only where others serve is this one call more for them.
        if not seconds or serves and not shared.replicas.retries.spend():
            return False
        if not shared.waiting.makes_room(self.want):
            return False
        self._since, self._lost = now, Lost(attempt, refusal, now + waiting_seconds)
        self._journal.decided(Outlives(attempt.live.id, attempt.cause, seconds))
        self._caller.begin_anew(refusal.code or "internal_error", Outcome.UPSTREAM_ERROR)
        shared.waiting.requeue(self, seconds)
        return True

    # --- what the queue asks ---

    def on_turn(self, *, owed: bool = False) -> bool:
        return self._guarded(self._go, owed)

    def on_patience_ended(self) -> None:
        self._guarded(self._give_up)

    def on_displaced(self) -> None:
        self._guarded(self._refuse_busy)

    def on_news(self, until: float) -> None:
        self._guarded(self._reconsider, until)

    def on_waited(self, place: Place) -> None:
        self._guarded(self._tell, place)

    def on_yield(self) -> None:
        self._guarded(self._yield)

    def may_yield(self) -> bool:
        return self.yields < self._shared.limits.yields and self._caller.is_unseen

    # --- inside ---

    def _guarded(self, act: Callable[..., T], *given: object) -> T | bool:
        """One that fails is refused, which ends its turn: others wait behind it."""
        try:
            return act(*given)
        except Exception:
            log.exception("a call that waits failed in the gateway")
        self._shared.waiting.leave(self)  # first, whatever comes of its refusal
        try:
            if self._caller:
                self._caller.refuse(errors.InternalError("The gateway failed on this request."))
        except Exception:
            log.exception("a call that waits could not be refused")
        return True

    def _give_up(self) -> None:
        if self.is_past_deadline():
            self._caller.refuse(answers.deadline_passed(), Outcome.DEADLINE)
        elif self._waits_on():
            return
        elif self._coming.is_ready():
            self._refuse_busy()
        else:
            self._caller.refuse(self._coming.refusal())

    def _waits_on(self) -> bool:
        """It came for a slot, and who had it is gone: now it waits for a start, as others do."""
        seconds, now = self._coming.seconds_if_needed(), self._shared.clock.now()
        until = self._since + seconds if seconds else now
        if until <= now or self._coming.is_ready() and self._unanswered():
            return False
        self._shared.waiting.stay(self, until)
        return True

    def _refuse_busy(self) -> None:
        replicas, route = self._shared.replicas, self._route
        pace, slots = replicas.pace(route), replicas.at_once(route)
        expected = self._shared.waiting.expected_seconds(self.want, pace, slots=slots)
        self._caller.refuse(answers.busy(route.name, expected))

    def _reconsider(self, until: float) -> None:
        if not self._coming.is_ready():
            self._ends_in_vain(until - self._shared.clock.now())

    def _ends_in_vain(self, limit_seconds: float) -> bool:
        """Nobody is held for a model that will not come."""
        vain = self._coming.in_vain(limit_seconds)
        if vain:
            self._journal.decided(vain)
            self._caller.refuse(self._coming.hindered(vain))
        return vain is not None

    def _tell(self, place: Place) -> None:
        ready = self._shared.replicas.can_serve(self._route)
        pace = self._shared.replicas.pace(self._route) if ready else None
        took = self._route.start_seconds
        self._caller.say(progress.comment(place, pace, is_loading=not ready, start_seconds=took))

    def _yield(self) -> None:
        self.yields += 1
        self._caller.begin_anew("requeued", Outcome.DRAINED)
        self._since = self._shared.clock.now()
        self._shared.waiting.requeue(self)

    def _go(self, owed: bool) -> bool:
        now = self._shared.clock.now()
        if now >= self.want.ends_by:
            self.on_patience_ended()
            return True
        choice = self._caller.choose(owed=owed)
        if isinstance(choice, Full):
            if self._since is None:
                self._journal.decided(choice)
            return False
        if isinstance(choice, NoneReady):
            return self._without_replica(choice)
        if self._lost and (condemned := self._lost.condemned(self._shared.deaths)):
            self._shared.waiting.leave(self)
            self._caller.refuse(condemned)
            return True
        self._shared.waiting.dispatched(self)
        self._journal.marks.turn_at = now
        if self._since is not None:
            self._shared.tally.observe("wait_seconds", now - self._since)
        self._caller.dispatch(choice)
        return True

    def _wait(self) -> None:
        shared = self._shared
        cold = self._coming.seconds_if_needed()
        if cold == 0:
            return self._caller.refuse(self._coming.refusal())
        if cold and self._ends_in_vain(min(cold, self.want.ends_by - shared.clock.now())):
            return None
        pace = shared.replicas.pace(self._route) if cold is None else None
        if pace and (refused := self._crowded_out(pace)):
            return self._caller.refuse(refused)
        slots = shared.replicas.at_once(self._route)
        decision = shared.waiting.join(self, pace, slots=slots, cold_seconds=cold)
        self._journal.decided(decision)
        if isinstance(decision, Queued):
            self._since = shared.clock.now()
            if pace:
                shared.buckets.queued((self.want.pool, self.want.priority), pace.seconds)
            return self.on_waited(shared.waiting.place(self)) if self.is_told else None
        shared.tally.add("refused_at_arrival_total", priority=self.want.priority)
        return self._caller.refuse(answers.refusal_of(decision, self._route.name))

    def _crowded_out(self, pace: rules.Pace) -> Refusal | None:
        """More came than its engines can do; what can start in its wait is no more than that."""
        bucket, want = self._route.bucket, self.want
        burst_seconds = bucket.burst_seconds if bucket else want.waiting_seconds
        pool = (want.pool, want.priority)
        refused = self._shared.buckets.crowded(pool, pace.seconds, burst_seconds)
        if refused is None:
            return None
        self._journal.decided(refused)
        return slow_down(refused, self._route.name)

    def _without_replica(self, choice: NoneReady) -> bool:
        """False if it is worth to wait for one to be ready."""
        if self._coming.is_ready():
            refusal = self._unanswered()
        elif self._coming.seconds():
            return False
        else:
            refusal = self._coming.refusal()
        if refusal is None:
            return False
        self._shared.waiting.leave(self)
        self._journal.decided(choice)
        self._caller.refuse(refusal)
        return True

    def _unanswered(self) -> Refusal | None:
        """Its replicas are gone, and the snapshot does not know it yet."""
        name, now = self._route.name, self._shared.clock.now()
        retry_seconds = self._shared.limits.eject_seconds
        if self._lost:
            return self._lost.ends_wait(name, now, retry_seconds)
        lost_at = self._shared.replicas.lost_at(self._route)
        if lost_at and now < lost_at + self.want.waiting_seconds and self._coming.seconds():
            return None  # it is about to hear of its end
        return answers.unanswered(name, retry_seconds)
