"""A request on its way to an engine, and who sent it."""

import logging
from typing import Protocol

log = logging.getLogger(__name__)

SPOILT = "the engine's answer could not be handled"


class Exchange(Protocol):
    """Who sent a request to an engine. `on_end` or `on_failure` comes last, and once.

    An `on_end` that fails is followed by `on_failure`: its sender must answer for it.
    """

    def on_head(self, status: int, headers: dict[bytes, bytes]) -> None: ...

    def on_data(self, data: bytes) -> None: ...

    def on_chunks(self, raw: bytes) -> bool:
        """The same in chunks of HTTP, most likely whole ones; False if they are to be parsed."""

    def on_end(self) -> None: ...

    def on_failure(self, reason: str, *, sent: bool, reused: bool) -> None: ...


class Connected(Protocol):
    """What it is sent on; `exchange` is who uses it now."""

    exchange: Exchange | None

    def abort(self) -> None: ...

    def let_finish(self) -> None: ...

    def pause(self, paused: bool) -> None: ...


class Sending:
    """A request on its way, also while the connection for it is still being made."""

    __slots__ = ("aborted", "dialled_at", "exchange", "request", "upstream")

    def __init__(self, exchange: Exchange, request: bytes) -> None:
        self.exchange = exchange
        self.request = request
        self.upstream: Connected | None = None
        self.dialled_at = 0.0  # when a connection made for it was there
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True
        if self.upstream and self.upstream.exchange is self.exchange:
            self.upstream.abort()

    def let_finish(self) -> None:
        if self.upstream and self.upstream.exchange is self.exchange:
            self.upstream.let_finish()

    def pause(self, paused: bool) -> None:
        if self.upstream and self.upstream.exchange is self.exchange:
            self.upstream.pause(paused)


def end(exchange: Exchange) -> None:
    """What fails in it is its sender's alone: the connection may be another's by now."""
    try:
        exchange.on_end()
    except Exception:
        log.exception(SPOILT)
        spoilt(exchange)


def fail(exchange: Exchange, reason: str, *, sent: bool, reused: bool = False) -> None:
    """It may try elsewhere, and fail in that."""
    try:
        exchange.on_failure(reason, sent=sent, reused=reused)
    except Exception:
        log.exception(SPOILT)
        spoilt(exchange)


def spoilt(exchange: Exchange) -> None:
    """Its sender has failed on it, which is to be its caller's end and nobody else's."""
    try:
        exchange.on_failure(SPOILT, sent=True, reused=False)
    except Exception:
        log.exception("and nobody could be told")
