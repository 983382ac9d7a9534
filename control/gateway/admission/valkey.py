"""A pipelined connection to Valkey: a command costs a write, its reply a callback."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

log = logging.getLogger(__name__)

Reply = Any  # int, bytes, None, list of these, or ReplyError
OnReply = Callable[[Reply], None]


class ReplyError(Exception):
    """Valkey refused a command, or went away before it answered."""


class Incomplete(Exception):
    """The rest of a reply has yet to arrive."""


def encode(*words: bytes | str | int | float) -> bytes:
    return b"*%d\r\n%b" % (len(words), encode_words(*words))


def encode_words(*words: bytes | str | int | float) -> bytes:
    """Part of a command."""
    parts = []
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


def decode(data: bytes, at: int) -> tuple[Reply, int]:
    """One reply of RESP2 from `at`, and where the next one begins."""
    end = data.find(b"\r\n", at)
    if end < 0:
        raise Incomplete
    kind, line, after = data[at], data[at + 1 : end], end + 2
    match kind:
        case 0x3A:  # :
            return int(line), after
        case 0x2B:  # +
            return line, after
        case 0x2D:  # -
            return ReplyError(line.decode()), after
        case 0x24:  # $
            return _bulk(data, int(line), after)
        case 0x2A:  # *
            items = []
            for _ in range(max(int(line), 0)):
                item, after = decode(data, after)
                items.append(item)
            return items, after
    raise ValueError(f"not RESP: {chr(kind)!r}")


def _bulk(data: bytes, size: int, after: int) -> tuple[bytes | None, int]:
    if size < 0:
        return None, after
    if len(data) < after + size + 2:
        raise Incomplete
    return data[after : after + size], after + size + 2


class Valkey(asyncio.Protocol):
    """Keeps itself connected; `connected` is False until a server has answered."""

    def __init__(
        self,
        url: str,
        *,
        answer_seconds: float,
        on_connected: Callable[[], None],
        on_lost: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.connected = False
        self._url = urlsplit(url)
        self._answer_seconds = answer_seconds
        self._on_connected = on_connected
        self._on_lost = on_lost
        self._clock = clock
        self._waiting: deque[tuple[float, OnReply]] = deque()
        self._unsent: list[bytes] = []
        self._rest = b""
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task | None = None
        self._closed = False
        self._said = False

    def send(self, command: bytes, on_reply: OnReply) -> None:
        """Only while `connected`. A lost connection answers with a ReplyError.

        All commands of one turn of the loop go out in one write: it costs more than they do.
        """
        self._waiting.append((self._clock(), on_reply))
        self._unsent.append(command)
        if len(self._unsent) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        # One that is closing is about to be lost, and answers all that wait then.
        if self._transport and unsent and not self._transport.is_closing():
            self._transport.write(b"".join(unsent))

    def sweep(self, now: float) -> None:
        """Reconnect if need be; a server that does not answer is as good as away."""
        if self._waiting and now - self._waiting[0][0] > self._answer_seconds:
            self._lose("it did not answer in time")
        if self._transport is None and self._connecting is None and not self._closed:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def close(self) -> None:
        self._closed = True
        if self._connecting:
            self._connecting.cancel()
        self._flush()
        self._lose("closed")

    async def _connect(self) -> None:
        url = self._url
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._answer_seconds):
                await loop.create_connection(lambda: self, url.hostname, url.port or 6379)
        except (OSError, TimeoutError) as error:
            self._say(f"no connection: {type(error).__name__}")
        finally:
            self._connecting = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._rest = b""
        user, password = self._url.username or "default", self._url.password
        if password:
            self.send(encode("AUTH", unquote(user), unquote(password)), self._greeted)
        self.send(encode("SELECT", self._url.path.strip("/") or "0"), self._ready)

    def _greeted(self, reply: Reply) -> None:
        if isinstance(reply, ReplyError):
            self._say(str(reply))

    def _ready(self, reply: Reply) -> None:
        if isinstance(reply, ReplyError):
            return self._say(str(reply))
        self.connected, self._said = True, False
        log.info("shared counters are connected")
        return self._on_connected()

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at = 0
        try:
            while at < len(data):
                reply, at = decode(data, at)
                self._answered(self._waiting.popleft()[1], reply)
        except Incomplete:
            pass
        self._rest = data[at:]

    def _answered(self, on_reply: OnReply, reply: Reply) -> None:
        try:
            on_reply(reply)
        except Exception:
            log.exception("a reply of the shared counters could not be handled")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lose("the connection was lost")

    def _lose(self, why: str) -> None:
        transport, self._transport = self._transport, None
        if transport:
            self._say(why)
            transport.abort()
        self.connected = False
        self._on_lost()
        self._unsent.clear()
        waiting, self._waiting = self._waiting, deque()
        for _, on_reply in waiting:
            self._answered(on_reply, ReplyError(why))

    def _say(self, why: str) -> None:
        if not self._said and not self._closed:
            log.warning("shared counters are away (%s): limits go on with local shares", why)
        self._said = True
