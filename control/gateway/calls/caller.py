"""What a call is to its tries, and to the queue that it waits in."""

from typing import Protocol

from control.gateway.errors import Refusal
from control.gateway.routing.rules import Choice, Chosen
from control.gateway.streams.relay import Piece
from control.gateway.waiting.rules import Want
from control.states import Outcome


class Caller(Protocol):
    """The call that tries. `on_ended` or `on_refusal` comes last, and once."""

    id: str
    want: Want

    def traceparent(self) -> bytes: ...

    def on_token(self, data: bytes, now: float) -> None: ...

    def on_chunks(self, raw: bytes, now: float) -> None:
        """Tokens, in chunks of HTTP that may pass as they came."""

    def on_pieces(self, pieces: list[Piece]) -> None: ...

    def on_answer(self, body: bytes) -> None: ...

    def on_stream_end(self, outcome: Outcome, refusal: Refusal) -> None: ...

    def on_refusal(self, refusal: Refusal, outcome: Outcome) -> None: ...

    def refuse(self, refusal: Refusal) -> None:
        """Whatever it is doing."""


class WaitingCall(Protocol):
    """The call that waits."""

    want: Want
    is_unseen: bool  # an engine works on it, and the tenant has received nothing

    def choose(self, *, owed: bool) -> Choice: ...

    def dispatch(self, choice: Chosen) -> None: ...

    def say(self, comment: bytes) -> None:
        """In its stream, which begins with it at the latest."""

    def begin_anew(self, why: str, outcome: Outcome) -> None:
        """Leave the engine, as if the call had not been there."""

    def refuse(self, refusal: Refusal, outcome: Outcome = Outcome.UPSTREAM_ERROR) -> None: ...
