"""What one call holds of its limits: taken before it runs, settled once by what it used."""

from collections.abc import Callable

from control.gateway.admission.answers import ratelimit_headers
from control.gateway.admission.buckets import Buckets
from control.gateway.admission.bundles import Taken
from control.gateway.admission.counters import Counters
from control.gateway.admission.credit import Unfunded
from control.gateway.admission.rules import Hold, Refused, Used
from control.gateway.errors import Headers
from control.metering.records import Close
from control.routes.snapshot import RouteInfo

Decided = Refused | Unfunded


class Holding:
    def __init__(
        self, counters: Counters, buckets: Buckets, call_id: str, *, route: RouteInfo, hold: Hold
    ) -> None:
        self._counters = counters
        self._buckets = buckets
        self._route = route
        self._entered = False
        self._call_id = call_id
        self._money = hold.money
        self._hold = hold
        self._answer: Taken | Refused | None = None
        self._taken: Taken | None = None
        self._settled = False

    def take(
        self,
        started_at: float,
        on_taken: Callable[[], None],
        on_refused: Callable[[Decided], None],
    ) -> None:
        """Of its budgets first: what they refuse takes nothing of rates."""
        if self._money is None:
            return self._take(on_taken, on_refused)

        def on_money(unfunded: Unfunded | None) -> None:
            return on_refused(unfunded) if unfunded else self._take(on_taken, on_refused)

        return self._money.begin(started_at, on_money)

    def _take(self, on_taken: Callable[[], None], on_refused: Callable[[Refused], None]) -> None:
        def on_answer(answer: Taken | Refused) -> None:
            self._answer = answer
            if isinstance(answer, Taken):
                self._taken = answer
                if self._settled:  # the client left meanwhile
                    return self._counters.settle(self._call_id, self._hold, answer, Used())
                if self._buckets.any_stated and (refused := self._enter()):
                    return on_refused(refused)
                return on_taken()
            return None if self._settled else on_refused(answer)

        self._counters.take(self._call_id, self._hold, on_answer)

    def granted(self, taken: Taken) -> None:
        """What was taken before this was there."""
        self._answer = self._taken = taken

    def charge(self, close: Close, model: str) -> None:
        """Before `settle`: what budgets pay for the call, as it is written down."""
        if self._money:
            self._money.settle(close, model)

    def settle(self, used: Used) -> None:
        if self._money:
            self._money.settle()
        if not self._settled and self._taken:
            self._counters.settle(self._call_id, self._hold, self._taken, used)
            if self._entered:
                self._buckets.settle(self._route, self._hold, used)
        self._settled = True

    def _enter(self) -> Refused | None:
        """Last, so that what a tenant's own limits refuse takes nothing from the others."""
        refused = self._buckets.enter(self._route, self._hold)
        self._entered = refused is None
        return refused

    def headers(self) -> Headers:
        answer = self._answer
        if answer is None:
            return ()
        refused = answer.check if isinstance(answer, Refused) else None
        return ratelimit_headers(answer.levels, refused)
