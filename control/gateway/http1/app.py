"""What a connection asks of the app that it serves, and of the call made of its request."""

from typing import Any, Protocol

from control.gateway.errors import Headers, Refusal
from control.gateway.http1.request import Request


class Call(Protocol):
    """What is being done for a connection's request, while it is being done."""

    def on_client_gone(self) -> None: ...

    def on_writable(self) -> None: ...


class App(Protocol):
    def judge_head(self, request: Request) -> None:
        """Refuse by raising, before the body is read."""

    def serve(self, request: Request, connection: Any) -> None:
        """Answer the `server.Connection` now, or set its `call` and answer later."""

    def worded(self, request: Request, refusal: Refusal) -> tuple[int, bytes, Headers]:
        """Status, body and headers of a refusal, as the API that was called has them."""

    def turn_away(self, request: Request, refusal: Refusal) -> None:
        """The connection refuses it, for a reason of its own or of `judge_head`."""

    def new_id(self) -> str: ...

    def now(self) -> float: ...
