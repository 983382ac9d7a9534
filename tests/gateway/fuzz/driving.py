"""A tenant's connection without sockets, and what came of the bytes it was fed."""

import re
from dataclasses import dataclass

import h11

from control.gateway.errors import Headers, Refusal, body_of
from control.gateway.http1.connections import Connections
from control.gateway.http1.request import Request
from control.gateway.http1.server import Connection
from control.gateway.limits import Limits

LIMITS = Limits(header_bytes=4096, body_bytes=4096)
BYTES_MAX = 1 << 20
_REQUEST_LINE = re.compile(rb"(?<![A-Z-])([A-Z-]+) +(\S+) +(HTTP/1\.[01])")


@dataclass(frozen=True)
class Message:
    method: str
    target: bytes
    body: bytes
    names: frozenset[bytes]


class Transport:
    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def write_eof(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> None:
        return None


class App:
    """Serves whatever it is given, and remembers it."""

    def __init__(self) -> None:
        self.served: list[Message] = []

    def judge_head(self, request: Request) -> None:
        """Everybody may."""

    def turn_away(self, request: Request, refusal: Refusal) -> None:
        """Nothing is counted."""

    def serve(self, request: Request, connection: Connection) -> None:
        names = frozenset(request.headers)
        self.served.append(Message(request.method, request.head.target, bytes(request.body), names))
        connection.respond(200, b"{}")

    def worded(self, request: Request, refusal: Refusal) -> tuple[int, bytes, Headers]:
        return refusal.status, body_of(refusal), ()

    def new_id(self) -> str:
        return "req_" + "0" * 32

    def now(self) -> float:
        return 0.0


def fed(parts: list[bytes]) -> tuple[list[Message], bytes]:
    """What was served, and what was written back."""
    app, transport = App(), Transport()
    connection = Connection(app, LIMITS, Connections(LIMITS))
    connection.connection_made(transport)
    for part in parts:
        connection.data_received(part)
    return app.served, bytes(transport.written)


def judged(data: bytes) -> list[Message] | None:
    """The messages that h11 reads; None if it refuses one before it is whole."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=BYTES_MAX)
    connection.receive_data(_tolerated(data))
    found: list[Message] = []
    try:
        while message := _next(connection):
            found.append(message)
            if not _answered(connection):
                break
    except h11.RemoteProtocolError:
        return found or None
    return found


def _next(connection: h11.Connection) -> Message | None:
    request, body = None, b""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            names = frozenset(name for name, _ in request.headers)
            return Message(request.method.decode(), bytes(request.target), body, names)
        else:
            return None


def _answered(connection: h11.Connection) -> bool:
    """Whether another request may follow."""
    connection.send(h11.Response(status_code=404, headers=[("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    if connection.our_state is h11.DONE and connection.their_state is h11.DONE:
        connection.start_next_cycle()
        return True
    return False


def _tolerated(data: bytes) -> bytes:
    """What RFC 9112 lets a server overlook: empty lines before a request, blanks in its line."""
    return _REQUEST_LINE.sub(rb"\1 \2 \3", data.lstrip(b"\r\n"))
