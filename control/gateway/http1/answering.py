"""What goes out on a tenant's connection: an answer in one piece, or a stream."""

import asyncio
from abc import ABC, abstractmethod

from control.gateway.errors import Headers, Refusal
from control.gateway.http1 import answers, framing
from control.gateway.http1.app import App, Call
from control.gateway.http1.request import Request
from control.gateway.http1.turn import Outgoing


class Answering(ABC):
    """A connection whose request was read, and who has yet to be told that it is answered."""

    app: App
    call: Call | None
    keep_alive: bool
    request: Request
    state: str
    transport: asyncio.Transport
    _chunked = False
    _chunked_allowed: bool
    _out: Outgoing
    _promised = False  # by the head of a stream, that the connection is kept

    def respond(self, status: int, body: bytes, headers: Headers | bytes = ()) -> None:
        """A whole answer; headers may be lines already."""
        head = answers.whole(status, self._own_headers(), headers, len(body))
        self.transport.write(head if self.request.method == "HEAD" else head + body)
        self._answered(self.app.now())

    def answer(self, template: bytes, id_: bytes, lines: bytes, body: bytes) -> None:
        """A whole one, by a template of `answers.good`; not asked for by HEAD."""
        now, request = self.app.now(), self.request
        closes = b"" if self.keep_alive else answers.CLOSES
        took_ms = (now - request.received_at) * 1000
        self.transport.write(template % (id_, took_ms, closes, lines, len(body), body))
        self._answered(now)

    def refuse(self, refusal: Refusal, headers: Headers = ()) -> None:
        status, body, own = self.app.worded(self.request, refusal)
        self.respond(status, body, own + headers)

    def start_stream(self, status: int, headers: Headers | bytes, data: bytes = b"") -> None:
        self._chunked = self._chunked_allowed
        self._promised = self.keep_alive = self.keep_alive and self._chunked
        head = answers.streamed(status, self._own_headers(), headers, chunked=self._chunked)
        self._out.put(head + framing.framed(data, self._chunked) if data else head)

    def begin_stream(self, template: bytes, id_: bytes, lines: bytes, data: bytes) -> None:
        """The same by a template of `answers.good_stream`, with what comes first of it."""
        self._chunked = self._chunked_allowed
        self._promised = self.keep_alive = self.keep_alive and self._chunked
        took_ms = (self.app.now() - self.request.received_at) * 1000
        if self._chunked:
            closes = b"" if self.keep_alive else answers.CLOSES
            framed = answers.CHUNKED + b"%x\r\n%b\r\n" % (len(data), data)
        else:
            closes, framed = answers.CLOSES, b"\r\n" + data
        self._out.put(template % (id_, took_ms, closes, lines, framed))

    def write(self, data: bytes) -> None:
        self._out.put(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def write_chunks(self, raw: bytes) -> None:  # in chunks already
        self._out.put(raw if self._chunked else framing.unframed(raw))

    def end_stream(self, data: bytes = b"") -> None:
        self._out.write(framing.ending(data, self._chunked))
        self._answered(self.app.now(), kept=self._promised)

    def cut(self) -> None:  # without the last chunk: the client sees a broken connection
        self.call, self.state = None, "closing"
        self._out.write()
        self.transport.abort()

    def _own_headers(self) -> bytes:
        took_seconds = self.app.now() - self.request.received_at
        return answers.own_headers(self.request.id, took_seconds, self.keep_alive)

    @abstractmethod
    def _answered(self, now: float, *, kept: bool = False) -> None: ...
