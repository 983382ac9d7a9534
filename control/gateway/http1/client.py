"""Connections to engines: a pool per replica, each connection with one exchange at a time."""

import asyncio
import logging
import ssl
from collections.abc import Callable

import httptools

from control.gateway.http1.proof import Proof
from control.gateway.http1.sending import SPOILT, Exchange, Sending, end, fail, spoilt
from control.gateway.limits import Limits

log = logging.getLogger(__name__)


class Upstream(asyncio.Protocol):
    """One connection to an engine."""

    def __init__(self, pool: "Pool") -> None:
        self.pool = pool
        self.exchange: Exchange | None = None
        self.since = 0.0  # when it became idle, or was let finish by itself
        self.closed = False
        self._uses = 0
        self._finishing = False
        self._paused = False
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
        self._head_seen = self._until_eof = False
        self._complete = False
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
        if self.exchange is None and not self._finishing:
            return self.abort()  # an answer that nobody asked for
        try:
            self._parser.feed_data(data)
            if self._bodies:
                self._hand_over()
        except httptools.HttpParserCallbackError:
            log.exception(SPOILT)
            self._fail(SPOILT)
        except httptools.HttpParserError:
            self._hand_over()
            self._fail("the engine's answer is not valid HTTP")
        return None

    def connection_lost(self, exc: Exception | None) -> None:
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
        status = self._parser.get_status_code()
        if status < 200:
            self._headers = {}
            return
        framed = b"content-length" in self._headers or b"transfer-encoding" in self._headers
        self._head_seen, self._until_eof = True, not framed
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


class Pool:
    """Connections to one launch of one engine; another launch has another pool."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: bool,
        limits: Limits,
        clock: Callable[[], float],
        proof: Proof | None = None,
    ) -> None:
        self.finishing: set[Upstream] = set()
        self.open: set[Upstream] = set()
        self.most = limits.connections  # that may be open at once
        self.proof = proof
        self._host = host
        self._port = port
        self._tls = ssl.create_default_context() if tls else None
        self._limits = limits
        self._clock = clock
        self._idle: list[Upstream] = []
        self._dialling: set[asyncio.Task] = set()
        self._closed = False

    def send(self, exchange: Exchange, request: bytes) -> Sending:
        """Send on an idle connection, or dial. The result can be aborted at any time."""
        sending = Sending(exchange, request)
        while self._idle:
            upstream = self._idle.pop()
            if not upstream.closed:
                sending.upstream = upstream
                upstream.begin(exchange, request)
                return sending
        self._make_room()
        task = asyncio.get_running_loop().create_task(self._dial(sending))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)
        return sending

    def now(self) -> float:
        return self._clock()

    def doubt(self) -> None:
        """The engine has closed a connection by itself: another may answer there by now."""
        if self.proof:
            self.proof.doubt()

    def give_back(self, upstream: Upstream, *, keep: bool) -> None:
        self.finishing.discard(upstream)
        if keep and not self._closed:
            upstream.since = self._clock()
            self._idle.append(upstream)
        else:
            upstream.closed = True
            self.open.discard(upstream)
            upstream.transport.close()

    def forget(self, upstream: Upstream) -> None:
        self.finishing.discard(upstream)
        self.open.discard(upstream)
        self._take(upstream)

    def sweep(self, now: float) -> None:
        """Close what the engine is about to close, and what does not come to its end."""
        limit = now - self._limits.pooled_idle_seconds
        for upstream in [u for u in (*self._idle, *self.finishing) if u.since < limit]:
            upstream.abort()

    def close(self) -> None:
        """No new connections are kept; running exchanges go on to their end."""
        self._closed = True
        for upstream in tuple(self._idle):
            upstream.abort()

    def _make_room(self) -> None:
        """An answer that is all there but for its last bytes gives way to a call."""
        while self.finishing and len(self.open) + len(self._dialling) >= self.most:
            min(self.finishing, key=lambda upstream: upstream.since).abort()

    async def _dial(self, sending: Sending) -> None:
        """Whatever comes in between, who sends hears of it."""
        try:
            upstream = await self._connected(sending)
        except (OSError, TimeoutError, _Unproven) as error:
            why = str(error) if isinstance(error, _Unproven) else _unconnected(error)
        except Exception as error:
            log.exception("a connection could not be made")
            why = _unconnected(error)
        else:
            if upstream is None:
                return None
            if sending.aborted:
                return upstream.abort()
            sending.upstream, sending.dialled_at = upstream, self._clock()
            return upstream.begin(sending.exchange, sending.request)
        if not sending.aborted:
            fail(sending.exchange, why, sent=False)
        return None

    async def _connected(self, sending: Sending) -> Upstream | None:
        """To the one that is meant, if that is asked. Raises why there is none; None is nobody's
        wish any more."""
        loop = asyncio.get_running_loop()
        while True:
            async with asyncio.timeout(self._limits.connect_seconds):
                _, upstream = await loop.create_connection(
                    lambda: Upstream(self), self._host, self._port, ssl=self._tls
                )
            if sending.aborted or not (self.proof and self.proof.is_due):
                return upstream
            try:
                why = await self.proof.of(upstream)
            except Exception:
                upstream.abort()
                raise
            if why and not sending.aborted:
                upstream.abort()
                raise _Unproven(why)
            if upstream.reset():
                self._take(upstream)
                return upstream
            if sending.aborted:
                return None  # and another call may be faster to use it

    def _take(self, upstream: Upstream) -> None:
        if upstream in self._idle:
            self._idle.remove(upstream)


class _Unproven(Exception):
    """Somebody else answers at the address."""


def _unconnected(error: Exception) -> str:
    return f"no connection: {type(error).__name__}"
