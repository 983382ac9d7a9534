"""A small HTTP/1.1 server that can also do what servers should not: cut, reset, hold."""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httptools

REQUEST_BYTES_MAX = 16 << 20
_LINGER_ZERO = struct.pack("ii", 1, 0)
# Time for the peer to read what came before a reset, which would throw it away.
_BEFORE_RESET_SECONDS = 0.05


@dataclass
class Request:
    method: str = ""
    target: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def path(self) -> str:
        return self.target.partition(b"?")[0].decode(errors="replace")


class Response:
    """One answer on a connection; writes after the client left go nowhere."""

    def __init__(self, transport: asyncio.Transport, keep_alive: bool) -> None:
        self._transport = transport
        self.keep_alive = keep_alive
        self.status = 0  # what was answered
        self._chunked = False

    def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole answer with its length."""
        if body:
            headers.setdefault("content_type", "application/json")
        self._head(status, headers | {"content_length": str(len(body))})
        self._transport.write(body)

    def start(self, content_type: str, framing: str = "chunked") -> None:
        """An answer in pieces, that ends by a last chunk or with the connection."""
        self._chunked = framing == "chunked"
        self.keep_alive = self.keep_alive and self._chunked
        length = {"transfer_encoding": "chunked"} if self._chunked else {"connection": "close"}
        self._head(200, {"content_type": content_type} | length)

    def write(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def end(self) -> None:
        if self._chunked:
            self._transport.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Close where we are: of a chunked body the end is missing."""
        self.keep_alive = False
        self._transport.close()

    async def reset(self) -> None:
        await asyncio.sleep(_BEFORE_RESET_SECONDS)
        connection = self._transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        self.keep_alive = False
        self._transport.abort()

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "server: stub"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self._transport.write("\r\n".join([*lines, "", ""]).encode())


App = Callable[[Request, Response], Awaitable[None]]


class Connection(asyncio.Protocol):
    """Requests of one connection, one after another; the client's leaving cancels the answer."""

    def __init__(self, app: App, tasks: set[asyncio.Task]) -> None:
        self._app = app
        self._tasks = tasks
        self._parser = httptools.HttpRequestParser(self)
        self._request = Request()
        self._waiting: deque[tuple[Request, bool]] = deque()
        self._task: asyncio.Task | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def connection_lost(self, _error: Exception | None) -> None:
        self._waiting.clear()
        if self._task:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            Response(self._transport, keep_alive=False).send(400)
            self._transport.close()

    def on_url(self, target: bytes) -> None:
        self._request.target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        self._request.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._request.body += body
        if len(self._request.body) > REQUEST_BYTES_MAX:
            self._transport.abort()

    def on_message_complete(self) -> None:
        request, self._request = self._request, Request()
        request.method = self._parser.get_method().decode()
        self._waiting.append((request, self._parser.should_keep_alive()))
        if not self._task:
            self._task = asyncio.get_running_loop().create_task(self._answer())
            self._tasks.add(self._task)
            self._task.add_done_callback(self._tasks.discard)

    async def _answer(self) -> None:
        while self._waiting:
            request, keep_alive = self._waiting.popleft()
            response = Response(self._transport, keep_alive)
            await self._app(request, response)
            if not response.keep_alive:
                self._transport.close()
                return
        self._task = None
