"""One connection to an engine: one exchange at a time."""

import asyncio
import logging
from typing import Protocol

import httptools

from control.gateway.http1.heads import Head, Known, known
from control.gateway.http1.sending import SPOILT, Exchange, end, fail, spoilt

log = logging.getLogger(__name__)

_HEADS_LEARNT = 8  # of a connection: one whose heads all differ is not asked again


class Connections(Protocol):
    """The others to the same engine."""

    open: set["Upstream"]
    finishing: set["Upstream"]

    def now(self) -> float: ...

    def doubt(self) -> None: ...

    def give_back(self, upstream: "Upstream", *, keep: bool) -> None: ...

    def forget(self, upstream: "Upstream") -> None: ...


class Upstream(asyncio.Protocol):
    def __init__(self, pool: Connections) -> None:
        self.pool = pool
        self.exchange: Exchange | None = None
        self.since = 0.0  # when it became idle, or was let finish by itself
        self.closed = False
        self._uses = 0
        self._finishing = False
        self._paused = False
        self._between = False  # chunks, so that what comes next begins one
        self._known: Known | None = None  # the head of an answer that came in one read
        self._learnt = 0  # heads since one was met again
        self._bodies: list[bytes] = []
        self.on_body = self._bodies.append  # what the parser calls for each chunk
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.pool.open.add(self)

    def begin(self, exchange: Exchange, request: bytes) -> None:
        self.exchange = exchange
        self._headers = {}
        self._head_seen = self._until_eof = self._chunked = self._between = False
        self._complete = self._begun = False
        self._uses += 1
        self.transport.write(request)

    def abort(self) -> None:
        """Close at once: the engine stops generating when its caller has gone."""
        self.exchange = None
        self.closed = True
        self.pool.forget(self)
        self.transport.abort()

    def reset(self) -> bool:
        """After a proof, for a call: False if it has ended, or somebody else was faster."""
        self._uses = 0
        return not self.closed and self.exchange is None

    def let_finish(self) -> None:
        """All that matters has come; the connection may be used again once it has ended."""
        if self._complete:
            return
        self.exchange = None
        self._finishing = True
        self.pause(False)
        self.since = self.pool.now()
        self.pool.finishing.add(self)

    def pause(self, paused: bool) -> None:
        if paused != self._paused and not self.closed:
            self._paused = paused
            (self.transport.pause_reading if paused else self.transport.resume_reading)()

    # --- what the transport says ---

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:
            # An answer that nobody asked for, or the rest of one that nobody waits for.
            return self._parse(data) if self._finishing else self.abort()
        if self._between:
            try:
                if exchange.on_chunks(data):
                    return None
            except Exception:
                log.exception(SPOILT)
                return self._spoil(exchange)
        elif self._known and not self._begun and (body := self._known.body_of(data)) is not None:
            return self._take_whole(exchange, body)
        return self._parse(data)

    def _parse(self, data: bytes) -> None:
        began, self._begun, self._between = not self._begun, True, False
        try:
            self._parser.feed_data(data)
            if began and self._complete and self._learnt < _HEADS_LEARNT:
                self._learn(data)
            if self._bodies:
                self._between = self._chunked and _ends_in(data, self._bodies[-1])
                self._hand_over()
        except httptools.HttpParserCallbackError:
            log.exception(SPOILT)
            self._fail(SPOILT)
        except httptools.HttpParserError:
            self._hand_over()
            self._fail("the engine's answer is not valid HTTP")

    def _take_whole(self, exchange: Exchange, body: bytes) -> None:
        """An answer in one read, and with the head of one before: there is nothing to parse."""
        self._learnt = 0
        self._head_seen = True
        try:
            exchange.on_head(200, self._known.head.headers)
            if body:
                exchange.on_data(body)
        except Exception:
            log.exception(SPOILT)
            return self._spoil(exchange)
        if self.exchange is exchange:
            self._complete, self.exchange = True, None
            self.pool.give_back(self, keep=True)
            end(exchange)
        return None

    def _learn(self, data: bytes) -> None:
        self._learnt += 1
        head = Head()
        head.headers = self._headers
        usual = self._status == 200 and not self.closed and b"transfer-encoding" not in head.headers
        self._known = known(data, head) if usual else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(exc)
        self._parser = None  # both know each other: a cycle would be left to the collector

    def _lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self.exchange and self._head_seen and self._until_eof and exc is None:
            exchange, self.exchange = self.exchange, None
            self.pool.forget(self)
            end(exchange)
        else:
            self._fail("the engine closed the connection")

    # --- what the parser says ---

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        status = self._status = self._parser.get_status_code()
        if status < 200:
            self._headers = {}
            return
        framed = b"content-length" in self._headers or b"transfer-encoding" in self._headers
        self._head_seen, self._until_eof = True, not framed
        self._chunked = self._headers.get(b"transfer-encoding") == b"chunked"
        if self.exchange:
            self.exchange.on_head(status, self._headers)

    def on_message_complete(self) -> None:
        if not self._head_seen:
            return
        self._hand_over()
        if self.closed:
            return
        self._complete = True
        exchange, self.exchange = self.exchange, None
        self._finishing = False
        self.pause(False)  # for a slow tenant: the next one's answer is to be read
        self.pool.give_back(self, keep=self._parser.should_keep_alive() and not self._until_eof)
        if exchange:
            end(exchange)

    def _hand_over(self) -> None:
        """All chunks of one read at once: an engine sends each event as a chunk of its own."""
        bodies = self._bodies
        data = bodies[0] if len(bodies) == 1 else b"".join(bodies)
        bodies.clear()
        exchange = self.exchange
        if data and exchange:
            try:
                exchange.on_data(data)
            except Exception:
                log.exception(SPOILT)
                self._spoil(exchange)

    def _spoil(self, exchange: Exchange) -> None:
        self.abort()  # which it may have let finish already
        spoilt(exchange)

    def _fail(self, reason: str) -> None:
        exchange, self.exchange = self.exchange, None
        self.closed = True
        if not self._finishing:
            self.pool.doubt()
        self.pool.forget(self)
        self.transport.abort()
        if exchange:
            fail(exchange, reason, sent=True, reused=self._uses > 1 and not self._head_seen)


def _ends_in(data: bytes, body: bytes) -> bool:
    """With this chunk, which is whole: `body` is the last that was read of `data`."""
    return body.endswith(b"\n\n") and data.endswith(b"%x\r\n%b\r\n" % (len(body), body))
