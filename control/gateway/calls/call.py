"""One call, from the counters to its usage event; `end()` settles once, whatever called it."""

from control.gateway import errors
from control.gateway.admission import answers
from control.gateway.admission.holding import Decided, Holding
from control.gateway.admission.rules import Hold
from control.gateway.bodies import context, wire
from control.gateway.calls.attempt import Attempt
from control.gateway.calls.bill import cost_of
from control.gateway.calls.journal import Ending, Journal
from control.gateway.calls.loss import Loss
from control.gateway.calls.patience import Patience
from control.gateway.calls.plan import plan_of
from control.gateway.calls.settling import settle
from control.gateway.calls.tier import tell_tier
from control.gateway.calls.translated import delivery_of
from control.gateway.errors import Headers, Refusal
from control.gateway.http1.framing import unframed
from control.gateway.http1.server import Connection
from control.gateway.known.footing import Footing
from control.gateway.routing.picks import pick_of
from control.gateway.routing.rules import Choice, Chosen
from control.gateway.shared import Shared
from control.gateway.streams.relay import Piece
from control.gateway.waiting import answers as waiting
from control.gateway.waiting.wants import want_of
from control.routes.snapshot import Identity
from control.states import Outcome, Priority

_SENDABLE = (Outcome.COMPLETE, Outcome.INCOMPLETE)


class Call:
    """Phases: counted, then waiting, then trying (perhaps twice), then delivering, then ended."""

    ended = False
    _max_tokens: int | None = None
    _attempt: Attempt | None = None
    _attempts = 0
    _loss: Loss | None = None
    _may_retry, _paused = True, False
    _outcome: Outcome | None = None  # set once nothing more comes from the engine

    def __init__(
        self,
        shared: Shared,
        connection: Connection,
        ask: wire.Ask,
        footing: Footing,
        hold: Hold,
    ) -> None:
        request, route = connection.request, footing.route
        self.id = request.id
        self._identity: Identity = request.identity
        self.want = want_of(request, footing, shared.limits, tier=ask.service_tier, hold=hold)
        tell_tier(ask, self.want.priority)
        self._journal = Journal(shared, request, route, ask, self.want.priority)
        self._patience = Patience(self, shared, route, self._journal, request, streams=ask.stream)
        self._shared = shared
        self._connection = connection
        self._ask = ask
        self._route = route
        self._holding = Holding(shared.counters, shared.buckets, self.id, route=route, hold=hold)
        self._pick = pick_of(request, route, ask, self.want, shared.limits)
        self._delivery = delivery_of(connection, shared.limits, ask.dialect)

    # --- before an engine ---

    def start(self, max_tokens: int | None) -> None:
        self._max_tokens = max_tokens
        self._shared.calls.add(self)
        self._holding.take(self._journal.started_at, self._on_taken, self._on_limit)

    def _on_limit(self, refused: Decided) -> None:
        self._journal.decided(refused)
        self.refuse(answers.refusal_of(refused, self._route.name, self._identity))

    def _on_taken(self) -> None:
        self._journal.marks.admitted_at = self._shared.clock.now()
        self._patience.arrive()

    @property
    def is_unseen(self) -> bool:
        attempt = self._attempt
        unseen = self._delivery.first_token_at is None
        return unseen and attempt is not None and attempt.holds_a_slot

    def say(self, comment: bytes) -> None:
        self._delivery.begin(self._headers)
        self._delivery.comment(comment, self._shared.clock.now())

    def begin_anew(self, why: str, outcome: Outcome) -> None:
        self._attempt.abort()
        self._journal.gave_up(self._attempt, why, outcome)
        self._attempt.forget()
        self._delivery.held.clear()
        self._pick.tried = frozenset() if outcome is Outcome.DRAINED else self._pick.tried

    def choose(self, *, owed: bool) -> Choice:
        self._pick.passes = owed or self.want.priority is Priority.INTERACTIVE
        return self._shared.replicas.choose(self._route, self._pick)

    def dispatch(self, choice: Chosen) -> None:
        live = choice.replica
        plan = plan_of(self._ask, self._route, live.info, self._max_tokens)
        self._journal.routed(choice)
        self._delivery.held.clear()
        self._pick.tried |= {live.id}
        if not self._attempts:
            self._shared.replicas.retries.earn()
        self._attempts += 1
        self._attempt = Attempt(self, self._shared, self._ask, live)
        self._attempt.prepare(plan)
        self._journal.opened(self._attempt, self._on_opened)

    def _on_opened(self, written: bool) -> None:
        """Nothing may be sent that nobody accounts for."""
        if written or self.ended:
            return None if self.ended else self._attempt.send()
        self._attempt.abort()
        self._attempt = None
        self._shared.waiting.settled(self._patience, 0.0)
        return self.refuse(errors.NotReady("The gateway cannot record calls.", wait_seconds=5))

    def traceparent(self) -> bytes:
        return self._journal.traceparent(self._attempts)

    # --- what the engine answers ---

    def on_token(self, data: bytes, now: float) -> None:
        """One or some of most: in the middle of a stream that the tenant reads as it comes."""
        delivery = self._delivery
        if delivery.first_token_at is None or not delivery.flows:
            return self.on_pieces([Piece(data, content=True)])
        delivery.last_token_at = now
        return delivery.send(data, self._attempt.reader.tokens, now)

    def on_chunks(self, raw: bytes, now: float) -> None:
        delivery, tokens = self._delivery, self._attempt.reader.tokens
        if delivery.first_token_at is None or not delivery.pass_on(raw, tokens, now):
            self.on_token(unframed(raw), now)
        else:
            delivery.last_token_at = now

    def on_pieces(self, pieces: list[Piece]) -> None:
        delivery, tokens = self._delivery, self._attempt.reader.tokens_out
        delivery.show(pieces, self._headers, tokens, self._shared.clock.now())
        if not self._paused and delivery.is_full:
            self._paused = True
            self._attempt.pause(True)

    def on_answer(self, body: bytes) -> None:
        delivery = self._delivery
        delivery.first_token_at = delivery.last_token_at = self._shared.clock.now()
        try:
            delivery.answer(body, self._headers())
        except Refusal as refusal:
            return self.refuse(refusal)
        return self.end(Outcome.COMPLETE, 200)

    def on_stream_end(self, outcome: Outcome, refusal: Refusal) -> None:
        return self._finish(outcome) if outcome in _SENDABLE else self.on_refusal(refusal, outcome)

    def on_refusal(self, refusal: Refusal, outcome: Outcome) -> None:
        """Try another replica, but only while the tenant has seen nothing of this one."""
        if isinstance(refusal, errors.ContextTooLong):
            refusal.param = context.prompt_member(self._ask)
        self._journal.error = refusal.code or ""
        may_retry = self._may_retry and self._shared.deaths.spares(self._ask, self._attempt)
        if self._delivery.first_token_at is not None and self._delivery.started:
            if may_retry and self._goes_on(refusal, outcome):
                return None
            self._delivery.fail(refusal, self._shared.clock.now())
            return self._finish(outcome)
        if outcome is Outcome.DRAINED and may_retry and not self._patience.is_past_deadline():
            return self._patience.on_yield()
        may_retry &= self._patience.allows_another(self._attempts)
        if refusal.status >= 500 and may_retry:
            calm = isinstance(refusal, errors.EngineBusy)
            if again := self._shared.replicas.choose_again(self._route, self._pick, calm=calm):
                self._journal.gave_up(self._attempt, refusal.code or "internal_error")
                return self.dispatch(again)
            if self._patience.outlives(self._attempt, refusal):
                return None
        return self.refuse(refusal, outcome=outcome)

    def _goes_on(self, refusal: Refusal, outcome: Outcome) -> bool:
        """Another replica says the rest of an answer whose engine was lost."""
        self._loss = self._loss or Loss(self, self._shared, self._ask, self._route, self._pick)
        lost = self._attempt
        attempt = self._loss.next(lost, outcome, refusal, self._max_tokens)
        if attempt is None:
            return False
        self._journal.went_on(lost, self._loss.choice)
        self._attempt = attempt
        self._attempts += 1
        self._paused = False  # its connection is another
        return True

    def _finish(self, outcome: Outcome) -> None:
        """All has come from the engine; the tenant may still be reading."""
        self._outcome = outcome
        self._shared.waiting.advance()
        self.on_writable()

    # --- what the tenant does ---

    def on_writable(self) -> None:
        self._delivery.flush()
        if self._paused and not self._delivery.is_full:
            self._paused = False
            self._attempt.pause(False)
        if self._outcome and self._delivery.is_empty and not self.ended:
            self._connection.end_stream()
            self.end(self._outcome, 200)

    def on_client_gone(self) -> None:
        if self._attempt is None:
            self._shared.count_refused(self._identity, "client_disconnected")
        failed = self._outcome if self._outcome not in _SENDABLE else None
        self.end(failed or Outcome.CLIENT_CLOSED, 499)  # had it failed before, that stays why

    # --- time, and the end ---

    def sweep(self, now: float) -> None:
        if self.ended:
            return  # by what another call left behind, in this sweep
        if self._delivery.is_too_slow(now):
            self._connection.cut()
            self.end(Outcome.SLOW_CLIENT, 200)
        elif self._outcome:
            return
        elif now >= self.want.ends_by:
            self._stop(waiting.deadline_passed(), Outcome.DEADLINE)
        elif self._attempt is None:
            self._break_silence(now)
        else:
            usage, _ = self._attempt.tokens(Outcome.COMPLETE)
            self._shared.waiting.progressed(self._patience, cost_of(usage))
            self._journal.progressed(self._attempt)
            has_content = self._delivery.first_token_at is not None
            self._attempt.sweep(now, has_content=has_content)
            self._break_silence(now)

    def _break_silence(self, now: float) -> None:
        if not self.ended and not self._outcome:
            if self._patience.ends_silence(now):
                self._delivery.begin(self._headers)
            self._delivery.keep_alive(now)

    def drain(self) -> None:
        """The gateway must stop, and has waited for this call long enough."""
        if not (self._outcome or self.ended):
            self._stop(waiting.restarted(), Outcome.DRAINED)

    def end(self, outcome: Outcome, status: int) -> None:
        if self.ended:
            return
        self.ended = True
        self._shared.calls.discard(self)
        delivery = self._delivery
        times = delivery.first_token_at, delivery.last_token_at
        ending = Ending(outcome, status, self._attempts, delivery.tokens, *times)
        settle(self._shared, self._patience, self._holding, self._journal, self._attempt, ending)

    def _stop(self, refusal: Refusal, outcome: Outcome) -> None:
        if self._attempt is None:
            return self.refuse(refusal, outcome)
        self._attempt.abort()
        self._may_retry = False
        return self.on_refusal(refusal, outcome)

    def refuse(self, refusal: Refusal, outcome: Outcome = Outcome.UPSTREAM_ERROR) -> None:
        if self.ended:
            return None  # and what failed came after it
        self._journal.refused(refusal, unseen=self._attempt is None)
        if self._delivery.started:
            self._shared.waiting.leave(self._patience)
            self._delivery.fail(refusal, self._shared.clock.now())
            return self._finish(outcome)
        self._connection.refuse(refusal, self._headers())
        return self.end(outcome, refusal.status)

    # --- inside ---

    def _headers(self) -> Headers:
        own = (b"x-weir-priority", self.want.priority.encode())
        return (*self._holding.headers(), own, *self._journal.headers)
