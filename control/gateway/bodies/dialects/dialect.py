"""Other APIs than OpenAI's chat: a call read as chat, its answer in their words."""

from typing import Any, NamedTuple, Protocol

from control.gateway.bodies.media import Link
from control.gateway.errors import Headers, Refusal
from control.states import Priority


class Translator(Protocol):
    """One stream, event by event. Nothing may be said after `fail`."""

    def chunk(self, data: bytes) -> bytes:
        """The data of one event of a chat stream, `[DONE]` too; what it means here, perhaps b""."""

    def fail(self, refusal: Refusal) -> bytes:
        """The stream has broken: the last event."""


class Dialect(Protocol):
    """How one call is answered."""

    def serve(self, priority: Priority) -> None:
        """Once, before anything else: how urgent it is, for the answer to say."""

    def whole(self, body: bytes, call_id: str) -> bytes:
        """Raises a refusal if the engine's answer is not understood."""

    def translator(self, call_id: str) -> Translator: ...

    def headers(self, call_id: str) -> Headers:
        """Beyond those of every answer."""


class Spoken(NamedTuple):
    """A call in another API's words, as chat members."""

    endpoint: str  # to ask an engine for
    fields: dict[str, Any]  # with `model`, and `max_tokens` if it is given
    dialect: Dialect
    links: tuple[Link, ...] = ()
    limit_name: str = "max_tokens"


def event(name: str, data: bytes) -> bytes:
    """A JSON text has no line breaks of its own, so one data line holds it."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)
