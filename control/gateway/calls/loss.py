"""A replica is lost in mid-answer: another of the same version goes on, or the answer ends."""

from control.gateway.calls import continuation
from control.gateway.calls.attempt import Attempt, Caller
from control.gateway.calls.plan import plan_of
from control.gateway.errors import Refusal
from control.gateway.routing.candidates import Pick
from control.gateway.routing.live import Live
from control.gateway.routing.rules import Chosen
from control.gateway.shared import Shared
from control.gateway.streams.continued import Continued
from control.gateway.wire import Ask
from control.routes.snapshot import RouteInfo
from control.states import Outcome

_LOST = (Outcome.TRUNCATED, Outcome.UPSTREAM_ERROR)


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

    def next(
        self, lost: Attempt, outcome: Outcome, refusal: Refusal, max_tokens: int | None
    ) -> Attempt | None:
        """None if the answer ends here."""
        answer = lost.answer
        if answer is None or outcome not in _LOST or refusal.status < 500:
            return None
        if self._times >= self._shared.limits.continuations:
            return None
        rest = continuation.rest_of(self._ask, answer, max_tokens)
        if rest is None:
            return None
        while live := self._another():
            if continuation.is_same(lost.live.info, live.info):
                return self._begin(rest, live, lost)
        return None

    def _another(self) -> Live | None:
        choice = self._shared.replicas.choose(self._route, self._pick)
        if not isinstance(choice, Chosen):
            return None
        self._pick.tried |= {choice.replica.id}
        return choice.replica

    def _begin(self, rest: continuation.Rest, live: Live, lost: Attempt) -> Attempt:
        self._times += 1
        shared = self._shared
        shared.tally.add("continuations_total", route=self._route.name)
        continued = Continued(lost.answer, event_bytes_max=shared.limits.event_bytes)
        attempt = Attempt(self._caller, shared, self._ask, live, continued)
        attempt.prepare(plan_of(rest.ask, self._route, live.info, rest.max_tokens))
        attempt.send()
        return attempt
