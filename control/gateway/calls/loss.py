"""A replica is lost in mid-answer: another of the same version goes on, or the answer ends."""

from control.gateway.bodies.wire import Ask
from control.gateway.calls import continuation
from control.gateway.calls.attempt import Attempt
from control.gateway.calls.caller import Caller
from control.gateway.calls.plan import plan_of
from control.gateway.errors import Refusal
from control.gateway.routing.candidates import Pick
from control.gateway.routing.live import Live
from control.gateway.routing.rules import Chosen
from control.gateway.shared import Shared
from control.gateway.streams.continued import Continued
from control.routes.snapshot import RouteInfo
from control.states import Outcome

_MORE_THAN_ANY_CONTEXT = 10_000_000  # the engine refuses it, and says what its context is
_LOST = (Outcome.TRUNCATED, Outcome.UPSTREAM_ERROR, Outcome.DRAINED)


class Loss:
    """How often one answer lost its engine, and what it needs to go on."""

    def __init__(
        self, caller: Caller, shared: Shared, ask: Ask, route: RouteInfo, pick: Pick
    ) -> None:
        self._caller = caller
        self._shared = shared
        self._ask = ask
        self._route = route
        self._pick = pick
        self._times = 0
        self._context: int | None = None  # of the engine, in tokens
        self.choice: Chosen | None = None  # of the engine that goes on, where there was one

    def next(
        self, lost: Attempt, outcome: Outcome, refusal: Refusal, max_tokens: int | None
    ) -> Attempt | None:
        """None if the answer ends here."""
        context = continuation.context_of(lost.refused_rest)
        answer = lost.answer
        if answer is None or outcome not in _LOST or refusal.status < 500:
            return None
        if self._times >= self._shared.limits.continuations and not context:
            return None
        rest = continuation.rest_of(self._ask, answer, max_tokens)
        if rest is None:
            return None
        if context and self._context is None:
            self._context, self.choice = context, None  # nobody had named one; now it is known
            return self._begin(rest, lost.live, lost)
        planned = outcome is Outcome.DRAINED  # no failure, which retries could make worse
        while live := self._another():
            if continuation.is_same(lost.live.info, live.info):
                if not planned and not self._shared.replicas.retries.spend():
                    return None
                self._times += 1
                self._shared.tally.add("continuations_total", route=self._route.name)
                return self._begin(rest, live, lost)
        return None

    def _another(self) -> Live | None:
        choice = self._shared.replicas.choose(self._route, self._pick)
        if not isinstance(choice, Chosen):
            return None
        self.choice = choice
        self._pick.tried |= {choice.replica.id}
        return choice.replica

    def _begin(self, rest: continuation.Rest, live: Live, lost: Attempt) -> Attempt:
        shared = self._shared
        continued = Continued(lost.answer, event_bytes_max=shared.limits.event_bytes)
        attempt = Attempt(self._caller, shared, self._ask, live, continued)
        most = rest.max_tokens or self._context or _MORE_THAN_ANY_CONTEXT
        attempt.prepare(plan_of(rest.ask, self._route, live.info, most))
        attempt.send()
        return attempt
