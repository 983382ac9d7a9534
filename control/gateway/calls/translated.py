"""A delivery that speaks another dialect: what is sent is translated on its way to a tenant."""

from collections.abc import Callable

from control.gateway.bodies.dialects.dialect import Dialect
from control.gateway.calls.delivery import Delivery
from control.gateway.errors import Headers, Refusal
from control.gateway.http1.server import Connection
from control.gateway.limits import Limits
from control.gateway.streams.sse import Event, Splitter


class Translated(Delivery):
    def __init__(self, connection: Connection, limits: Limits, dialect: Dialect) -> None:
        super().__init__(connection, limits)
        self._dialect = dialect
        self._call_id = connection.request.id
        self._own_headers = dialect.headers(self._call_id)
        self._translator = dialect.translator(self._call_id)
        self._splitter = Splitter(limits.event_bytes)

    def answer(self, body: bytes, headers: Headers) -> None:
        """Raises a refusal if the engine's answer is not understood."""
        super().answer(self._dialect.whole(body, self._call_id), headers + self._own_headers)

    def start(self, headers: Headers) -> None:
        super().start(headers + self._own_headers)

    def open(self, headers: Callable[[], Headers], data: bytes, tokens: int, now: float) -> None:
        self.begin(headers)
        self.send(data, tokens, now)

    def send(self, data: bytes, tokens: int, now: float) -> None:
        """Comments pass as they are; an event that means nothing here is left out."""
        told = b"".join([self._told(event) for event in self._splitter.feed(data)])
        if told:
            super().send(told, tokens, now)

    def pass_on(self, raw: bytes, tokens: int, now: float) -> bool:
        return False

    def fail(self, refusal: Refusal, now: float) -> None:
        super().send(self._translator.fail(refusal), self.tokens, now)

    def _told(self, event: Event) -> bytes:
        return event.raw if event.data is None else self._translator.chunk(event.data)


def delivery_of(connection: Connection, limits: Limits, dialect: Dialect | None) -> Delivery:
    if dialect is None:
        return Delivery(connection, limits)
    return Translated(connection, limits, dialect)
