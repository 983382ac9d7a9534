"""An ordinary call to which something happened: from then on a call as all others are."""

from typing import Protocol

from control.gateway.admission.rules import Hold
from control.gateway.bodies.wire import Ask
from control.gateway.calls.attempt import Attempt
from control.gateway.calls.call import Call
from control.gateway.calls.plan import plan_of
from control.gateway.calls.share import Share
from control.gateway.express.asked import Asked
from control.gateway.express.lane import Lane
from control.gateway.http1.sending import Sending
from control.gateway.http1.server import Connection
from control.gateway.routing.live import Live
from control.gateway.routing.rules import Chosen
from control.gateway.shared import Shared
from control.gateway.streams.chunks import Usage
from control.gateway.streams.relay import Piece, Reader
from control.gateway.waiting.rules import Want


class Folded(Protocol):
    """What was known of it as an ordinary one."""

    shared: Shared
    connection: Connection
    lane: Lane
    asked: Asked
    ask: Ask
    want: Want
    choice: Chosen
    live: Live
    request: bytes
    sending: Sending | None
    started_at: float
    sent_at: float
    is_open: bool


class Streaming(Folded, Protocol):
    """And of its stream."""

    reader: Reader
    share: Share | None  # once it was looked at
    noted: Usage | None  # what is written down of its use
    held: bytes  # that came before its first token
    tokens: int  # that were handed to the tenant
    head_at: float
    last_byte_at: float
    first_token_at: float | None
    last_token_at: float
    shown_at: float  # something went out last; 0.0 is not yet


class Unfolded(Call):
    def __init__(self, folded: Folded) -> None:
        bundle, want = folded.lane.bundle, folded.want
        hold = Hold(bundle.checks, want.input_tokens, folded.asked.output_tokens)
        super().__init__(folded.shared, folded.connection, folded.ask, folded.lane.footing, hold)
        self._folded = folded
        self._max_tokens = folded.asked.max_tokens
        self._attempts = 1
        self._pick.tried = frozenset([folded.live.id])
        self._holding.granted(bundle.taken)
        journal = self._journal
        journal.started_at = folded.started_at
        journal.is_open, journal.is_opening = folded.is_open, not folded.is_open
        journal.marks.decisions.append(folded.choice)
        journal.marks.read_at = journal.marks.admitted_at = folded.sent_at
        journal.marks.turn_at = journal.marks.routed_at = folded.sent_at

    def take_over(self) -> Attempt:
        """Whoever knew the ordinary one knows this one instead; but its connection to the engine
        tells that one, which passes it on."""
        folded, self._folded = self._folded, None
        shared = self._shared
        plan = plan_of(self._ask, self._route, folded.live.info, self._max_tokens)
        attempt = self._attempt = _Begun(self, folded, plan)
        folded.live.attempts.discard(folded)
        folded.live.attempts.add(attempt)
        shared.calls.discard(folded)
        shared.calls.add(self)
        shared.waiting.hand_over(folded, self._patience)
        if self._connection.call is folded:
            self._connection.call = self
        return attempt

    def resume(self, stream: Streaming) -> None:
        """It had come so far."""
        delivery = self._delivery
        delivery.first_token_at, delivery.last_token_at = (
            stream.first_token_at,
            stream.last_token_at,
        )
        self._journal.noted(stream.noted)
        self._attempt.resume(stream)
        if stream.shown_at:
            delivery.resume(stream.tokens, stream.shown_at)
        elif stream.held:
            delivery.held = [Piece(stream.held, content=False)]

    def on_written(self, good: bool) -> None:
        self._journal.is_open, self._journal.is_opening = good, False
        self._on_opened(good)


class _Begun(Attempt):
    """Its slot is taken, and its request most likely sent."""

    def __init__(self, call: Call, folded: Folded, plan) -> None:
        super().__init__(call, folded.shared, folded.ask, folded.live)
        self._plan = plan
        self._request = folded.request
        self._sending = folded.sending
        self.sent_at = self._last_byte_at = folded.sent_at
        self._share.taken_before()

    def resume(self, stream: Streaming) -> None:
        self.reached, self._status = True, 200
        self.reader = stream.reader
        self.head_at, self._last_byte_at = stream.head_at, stream.last_byte_at
        self._share = stream.share or self._share
