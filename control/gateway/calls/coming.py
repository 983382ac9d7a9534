"""What a call waits for while no engine serves its route."""

from control.gateway import errors
from control.gateway.errors import Refusal
from control.gateway.shared import Shared
from control.gateway.waiting import rules, starts
from control.gateway.waiting.rules import Want
from control.gateway.waiting.starts import InVain
from control.routes.snapshot import RouteInfo


class Coming:
    """The start of an engine: whether one is to come, how long a call waits for it, what it is
    told if none does."""

    def __init__(self, shared: Shared, route: RouteInfo, want: Want, *, streams: bool) -> None:
        self._shared = shared
        self._route = route
        self._want = want
        self._streams = streams

    def is_ready(self) -> bool:
        """Nothing has to come: an engine is there, though perhaps out of reach."""
        return self._shared.replicas.any_ready(self._route)

    def seconds(self) -> float:
        """How long the call waits for a start; 0 is not at all."""
        limits = self._shared.limits
        if not self._want.pool:
            return 0.0  # no deployment is behind the route: nothing will come
        return rules.cold_seconds(
            self._route.cold_start_seconds,
            limits.cold_start_seconds,
            whole_seconds_max=None if self._streams else limits.cold_start_whole_seconds,
        )

    def seconds_if_needed(self) -> float | None:
        """The same. None: it waits for a slot, or for what a probe will tell."""
        if self._shared.replicas.can_serve(self._route):
            return None
        return self.seconds() or (None if self.is_ready() else 0.0)

    def in_vain(self, limit_seconds: float = 0.0) -> InVain | None:
        fallback, pool = self._route.fallback, self._want.pool
        return self._shared.starts.in_vain(pool | {fallback} if fallback else pool, limit_seconds)

    def hindered(self, vain: InVain) -> Refusal:
        retry_seconds = self._shared.limits.hindered_retry_seconds
        return starts.refusal_of(vain, self._route.name, retry_seconds)

    def refusal(self) -> Refusal:
        if vain := self.in_vain():  # it was worth to wait, but it came to nothing
            return self.hindered(vain)
        took = self._route.start_seconds
        said = f" A start takes about {took:.0f} s." if took else ""
        text = f"The model behind '{self._route.name}' is not ready yet.{said}"
        wait_seconds = took or self._shared.limits.loading_retry_seconds
        return errors.ModelLoading(f"{text} Please try again shortly.", wait_seconds=wait_seconds)
