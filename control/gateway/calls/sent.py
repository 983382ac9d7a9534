"""What one try has at its engine: the request, and what that holds there until it is left, once."""

from control.gateway import errors
from control.gateway.bodies.wire import Ask
from control.gateway.calls.caller import Caller
from control.gateway.calls.outgoing import request_of
from control.gateway.calls.plan import Plan
from control.gateway.calls.share import Share
from control.gateway.errors import Refusal
from control.gateway.http1.sending import Sending
from control.gateway.routing.live import Live
from control.gateway.shared import Shared
from control.states import Outcome


class Sent:
    """The connection tells what comes of it to whoever reads it: see `Attempt`."""

    reached = False  # the engine may have begun to work
    _over = _resent = False
    _sending: Sending | None = None

    def __init__(self, caller: Caller, shared: Shared, ask: Ask, live: Live) -> None:
        self.live = live
        self.ask = ask
        self._caller = caller
        self._shared = shared
        self._share = Share(shared.replicas, live, caller.want)
        self.sent_at = shared.clock.now()

    def prepare(self, plan: Plan) -> None:
        """Take a slot of the replica; `send` comes next, in the same turn of the loop."""
        self._plan = plan
        self._request = request_of(plan, self.live, self._caller.id, self._caller.traceparent())
        self.live.attempts.add(self)
        self._share.take()

    def send(self) -> None:
        """Once: what it waited for is told also after it was left, or sent for another reason."""
        if self._sending is None and not self._over:
            self._sending = self.live.pool.send(self, self._request)

    def _send_again(self) -> None:
        """The engine was just closing the kept-alive connection: it has not seen this."""
        self._resent = True
        self._sending = self.live.pool.send(self, self._request)

    @property
    def connected_at(self) -> float:
        """When the request went out: at once, or when there was a connection. 0.0 is not yet."""
        if self._sending is None or self._sending.upstream is None:
            return 0.0
        return self._sending.dialled_at or self.sent_at

    def is_at_engine(self) -> bool:
        """The engine has this request, or had it when it was lost."""
        sending = self._sending
        return self.reached or self._resent or sending is not None and sending.upstream is not None

    def abort(self) -> None:
        """Close the engine's connection at once, so that it stops generating."""
        if self._over:
            return
        sending = self._sending
        self.reached |= sending is not None and sending.upstream is not None
        self._leave()
        if sending:
            sending.abort()

    @property
    def holds_a_slot(self) -> bool:
        """That another call could have."""
        return self._sending is not None and not self._over and self._share.is_of_use

    def part(self) -> None:
        """Nothing more comes: what points back is let go, so that nobody has to look for it."""
        self._caller = self._sending = None

    def pause(self, paused: bool) -> None:
        """Let the engine's bytes wait in the socket while a slow tenant's buffer is full."""
        self._share.look_away()
        if not self._over:
            self._sending.pause(paused)

    def time_out(self, message: str) -> None:
        self.leave(errors.UpstreamTimeout(message), Outcome.DEADLINE)

    def leave(self, refusal: Refusal, outcome: Outcome) -> None:
        self.abort()
        self._caller.on_refusal(refusal, outcome)

    def _leave(self) -> None:
        if not self._over:
            self._over = True
            self.live.attempts.discard(self)
            replicas = self._shared.replicas
            self._share.give_back()
            if self.reached:
                replicas.held(self.live, self._shared.clock.now() - self.sent_at)
