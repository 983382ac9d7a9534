"""Connections to engines: a pool per replica, each connection with one exchange at a time."""

import asyncio
import logging
import ssl
from collections.abc import Callable

from control.gateway.http1.client import Upstream
from control.gateway.http1.proof import Proof
from control.gateway.http1.sending import Exchange, Sending, fail
from control.gateway.limits import Limits

log = logging.getLogger(__name__)


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
