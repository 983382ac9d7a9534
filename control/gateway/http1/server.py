"""A tenant's connection: one request at a time, with limits on all that it sends and takes."""

import asyncio

import httptools

from control.gateway import errors
from control.gateway.errors import Refusal
from control.gateway.http1 import answers, framing
from control.gateway.http1.answering import Answering
from control.gateway.http1.app import App, Call
from control.gateway.http1.connections import Connections
from control.gateway.http1.heads import Head, Known, known
from control.gateway.http1.request import Request, path_of
from control.gateway.http1.turn import Outgoing
from control.gateway.http1.upgrade import rest_of
from control.gateway.limits import Limits

_HEADS_LEARNT = 4  # of a connection: one whose heads all differ is not asked again


class Connection(Answering, asyncio.Protocol):
    """States: `idle`, then `head` and `body` while reading, `busy` while answering, `closing`."""

    def __init__(self, app: App, limits: Limits, connections: Connections) -> None:
        self.app = app
        self.limits = limits
        self.call: Call | None = None
        self.state = "idle"
        self.paused, self.keep_alive = False, True
        self.last_progress_at = 0.0  # bytes went out, or had nowhere to wait
        self._connections = connections
        self._since = app.now()
        self._unsent = self._received_bytes = self._learnt = 0
        self._pipelined = False
        self._plain = False  # whether a request like the last may be known by its head
        self._bodies, self._room_bytes = connections.bodies, connections.bodies.small_bytes
        self._known: Known | None = None

    # --- what the transport says ---

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self._address = str((transport.get_extra_info("peername") or ("",))[0])
        self._parser = httptools.HttpRequestParser(self)
        self._out = Outgoing(transport, self._connections.turn)
        self._connections.add(self)
        if len(self._connections) > self.limits.connections:
            self._refuse_and_close(errors.Overloaded("Too many connections.", wait_seconds=5))

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.leave(self)
        self._out.forget()
        self.state, self._parser = "closing", None  # both know each other: a cycle would stay
        call, self.call = self.call, None
        if call:
            call.on_client_gone()

    def eof_received(self) -> bool:
        return False  # half closed is taken as gone: the transport closes

    def pause_writing(self) -> None:
        self.paused = True
        self.last_progress_at = self.app.now()
        self._unsent = self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        self.paused = False
        if self.call:
            self.call.on_writable()

    def data_received(self, data: bytes) -> None:
        began = self.state == "idle"
        if began:
            self._received_bytes = 0
            if self._known and (body := self._known.body_of(data)) is not None:
                return self._serve(self._known.head, body)
        elif self.state == "busy":
            self._pipelined |= bool(data.strip(b"\r\n"))
            return None
        elif self.state == "closing":
            return None  # lingering: read on, so that the refusal is not lost to a reset
        self._received_bytes += len(data)
        self._read(data)
        if self.state == "head" and self._received_bytes > self.limits.header_bytes:
            self._refuse_and_close(answers.too_large("head", self.limits.header_bytes))
        if began and self._plain and self._learnt < _HEADS_LEARNT:
            self._learnt += 1
            self._known = known(data, self._head)
        return None

    def _serve(self, head: Head, body: bytes) -> None:
        """A whole request, with a head that this connection has seen before."""
        self._begin(head)
        self.request.body = body
        try:
            self.app.judge_head(self.request)
        except Refusal as refusal:
            return self._refuse_and_close(refusal)
        self.state = "busy"
        return self.app.serve(self.request, self)

    def _read(self, data: bytes) -> None:
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            if self.state == "busy":
                self._pipelined = True  # a request is being answered: what follows it is rubbish
                return
            refusal = error.__context__
            if not isinstance(refusal, Refusal):
                refusal = errors.BadRequest("This is not a valid HTTP/1.1 request.")
            self._refuse_and_close(refusal)

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self.state == "body":  # asked for, not given
                self._parser = rest_of(self, self.request.headers)
                self._parser.feed_data(data[upgrade.args[0] :])

    # --- what the parser says; a refusal raised here ends the connection ---

    def on_message_begin(self) -> None:
        if self.state != "idle":
            self._pipelined = True
            return
        self._begin(Head())

    def on_url(self, url: bytes) -> None:
        if not self._pipelined:
            self._head.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._pipelined or self.state == "body":
            return  # a trailer comes too late to be judged
        name, headers = name.lower(), self.request.headers
        headers[name] = headers[name] + b", " + value if name in headers else value

    def on_headers_complete(self) -> None:
        if self._pipelined:
            return
        request, head, parser = self.request, self._head, self._parser
        request.method = head.method = parser.get_method().decode("latin-1")
        request.path = head.path = path_of(head.target)
        self.keep_alive &= parser.should_keep_alive() and not parser.should_upgrade()
        version, headers = parser.get_http_version(), head.headers
        self._chunked_allowed = version != "1.0"
        if version != "1.1" or b"transfer-encoding" in headers or b"host" not in headers:
            framing.judge_framing(version, headers)
        if self._received_bytes > self.limits.header_bytes:
            framing.judge_size(head, self.limits.header_bytes)
        self.app.judge_head(request)
        if (length := int(headers.get(b"content-length", 0))) > self._room_bytes:
            self._room_bytes = self._bodies.hold(self, length)
        self.state, self._since = "body", self.app.now()
        if headers.get(b"expect", b"").lower() == b"100-continue":
            self.transport.write(answers.CONTINUE)
        elif head.method == "POST" and b"content-length" in headers and self._chunked_allowed:
            self._plain = self.keep_alive

    def on_body(self, body: bytes) -> None:
        if self._pipelined:
            return
        self._body_bytes += len(body)
        if self._body_bytes > self._room_bytes:
            self._room_bytes = self._bodies.grow(self, self._body_bytes)
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self.state == "body" and not self._pipelined and not self._parser.should_upgrade():
            self.on_body_complete()

    def on_body_complete(self) -> None:
        body, self._body = self._body, []
        self.request.body = body[0] if len(body) == 1 else b"".join(body)
        self.state = "busy"
        self.app.serve(self.request, self)

    # --- from without ---

    @property
    def is_needed(self) -> bool:
        """Something of it is on its way in or out, or about to be: it asked not long ago."""
        if self.state != "idle" or self.transport.get_write_buffer_size():
            return True
        return self.app.now() - self._since < self.limits.asks_again_seconds

    def close_when_idle(self) -> None:
        self.keep_alive = False
        if not self.is_needed:
            self._close()

    def sweep(self, now: float) -> None:
        """Once a second: whoever reads or writes too slowly has had time enough."""
        limits, waited = self.limits, now - self._since
        if self.state == "idle" and waited > limits.idle_seconds:
            self._close()
        elif self.state == "head" and waited > limits.header_seconds:
            self._refuse_and_close(errors.RequestTimeout("The headers did not arrive in time."))
        elif self.state == "body" and framing.is_slow(self._body_bytes, waited, limits):
            self._refuse_and_close(errors.RequestTimeout("The body arrives too slowly."))
        elif self.state == "closing" and waited > self._linger_seconds():
            self.transport.abort()
        if self.paused:
            self._watch_unsent(now)

    # --- inside ---

    def _watch_unsent(self, now: float) -> None:
        """Any byte taken is progress; a whole answer that nobody reads is not kept for ever."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self.last_progress_at = unsent, now
        elif not self.call and now - self.last_progress_at > self.limits.slow_client_seconds:
            self.transport.abort()

    def _begin(self, head: Head) -> None:
        now = self.app.now()
        self._head = head
        self.request = Request(self.app.new_id(), now, self._address, head)
        self.state, self._since = "head", now
        self._body_bytes = 0
        self._body: list[bytes] = []
        self._chunked_allowed = True

    def _answered(self, now: float, *, kept: bool = False) -> None:
        self.call = None
        if self._room_bytes > self._bodies.small_bytes:
            self._room_bytes = self._bodies.release(self)
        if self._pipelined and self.keep_alive:
            self._begin(Head())
            self._pipelined = False
            self._refuse_and_close(errors.BadRequest(framing.ONE_AT_A_TIME))
        elif self.keep_alive or kept:
            self.state, self._since = "idle", now
        else:
            self._close()

    def _refuse_and_close(self, refusal: Refusal) -> None:
        """The rest of the request is unread: answer, then read on for a moment and close."""
        if self.state == "closing":
            return
        if self.state == "idle":
            self._begin(Head())
        self.keep_alive = False
        self.app.turn_away(self.request, refusal)
        self.refuse(refusal)

    def _close(self) -> None:
        self.state, self._since = "closing", self.app.now()
        if not self.transport.is_closing():
            self.transport.write_eof()

    def _linger_seconds(self) -> float:
        unsent = self.transport.get_write_buffer_size()
        return self.limits.slow_client_seconds if unsent else self.limits.linger_seconds
