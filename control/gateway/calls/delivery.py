"""The way to a tenant: as fast as it reads, with a bounded buffer for what it has yet to read."""

from collections.abc import Callable

from control.gateway import errors
from control.gateway.errors import Headers, Refusal
from control.gateway.http1.server import Connection
from control.gateway.limits import Limits
from control.gateway.streams.relay import Piece

STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
_KEEP_ALIVE = b": keep-alive\n\n"


class Delivery:
    """`tokens` counts what was handed to the connection, apart from what was generated.

    `first_token_at` and `last_token_at` are when the engine's came, whoever has read them.
    """

    def __init__(self, connection: Connection, limits: Limits) -> None:
        self.started = False
        self.tokens = 0
        self.first_token_at: float | None = None
        self.last_token_at = 0.0
        self.held: list[Piece] = []  # of an engine that another may still replace
        self.is_full = False
        self._connection = connection
        self._limits = limits
        self._pending: list[tuple[bytes, int]] = []
        self._pending_bytes = 0
        self._sent_at = 0.0
        self._full_since: float | None = None

    @property
    def is_empty(self) -> bool:
        return not self._pending

    @property
    def flows(self) -> bool:
        """What is sent now goes out at once."""
        return self.started and not self._pending and not self._connection.paused

    def answer(self, body: bytes, headers: Headers) -> None:
        """A whole one, at once."""
        self._connection.respond(200, body, headers)

    def begin(self, headers: Callable[[], Headers]) -> None:
        """Send the headers, once: what fails from now on is an event of the stream."""
        if not self.started:
            self.start(headers())

    def start(self, headers: Headers) -> None:
        self.started = True
        self._connection.start_stream(200, STREAM_HEADERS + headers)

    def show(
        self, pieces: list[Piece], headers: Callable[[], Headers], tokens: int, now: float
    ) -> None:
        """Held until something is said: a role alone, or a comment, says nothing yet."""
        has_content = any(piece.content for piece in pieces)
        if has_content:
            self.last_token_at = now
        if self.first_token_at is not None:
            return self.send(b"".join([piece.data for piece in pieces]), tokens, now)
        self.held += pieces
        if not has_content:
            return None
        self.first_token_at = now
        pieces, self.held = self.held, []
        return self.open(headers, b"".join([piece.data for piece in pieces]), tokens, now)

    def open(self, headers: Callable[[], Headers], data: bytes, tokens: int, now: float) -> None:
        """What comes first, in one write with the headers if these have not been sent."""
        if self.started or self._connection.paused:
            self.begin(headers)
            return self.send(data, tokens, now)
        self.resume(tokens, now)
        return self._connection.start_stream(200, STREAM_HEADERS + headers(), data)

    def resume(self, tokens: int, sent_at: float) -> None:
        """So much has been sent already."""
        self.started, self.tokens, self._sent_at = True, tokens, sent_at

    def send(self, data: bytes, tokens: int, now: float) -> None:
        self._sent_at = now
        if self._pending or self._connection.paused:
            self._pending.append((data, tokens))
            self._pending_bytes += len(data)
            if not self.is_full and self._pending_bytes >= self._limits.buffer_bytes:
                self.is_full, self._full_since = True, now
        else:
            self._connection.write(data)
            self.tokens = tokens

    def pass_on(self, raw: bytes, tokens: int, now: float) -> bool:
        """Chunks of HTTP as they came; False if it does not flow."""
        connection = self._connection
        if self._pending or connection.paused or not self.started:
            return False
        self._sent_at = now
        connection.write_chunks(raw)
        self.tokens = tokens
        return True

    def comment(self, data: bytes, now: float) -> None:
        """Passed over by readers of the stream; one who does not read misses nothing."""
        if not self._pending:
            self.send(data, self.tokens, now)

    def fail(self, refusal: Refusal, now: float) -> None:
        """The stream has broken, and says so as its last event."""
        self.send(errors.error_event(refusal), self.tokens, now)

    def flush(self) -> None:
        """The tenant has read on."""
        sent = 0
        for data, tokens in self._pending:
            if self._connection.paused:
                break
            sent += 1
            self.tokens = tokens
            self._pending_bytes -= len(data)
            self._connection.write(data)
        del self._pending[:sent]
        if self._pending_bytes < self._limits.buffer_bytes:
            self.is_full, self._full_since = False, None

    def is_too_slow(self, now: float) -> bool:
        """The buffer was full, or nothing at all was read, for as long as is borne."""
        limit = self._limits.slow_client_seconds
        if self._full_since is not None and now - self._full_since > limit:
            return True
        return self._connection.paused and now - self._connection.last_progress_at > limit

    def keep_alive(self, now: float) -> None:
        """A comment in the silence keeps proxies open, and shows when nobody listens any more."""
        silent = now - self._sent_at
        if self.started and not self._pending and silent >= self._limits.keep_alive_seconds:
            self.comment(_KEEP_ALIVE, now)
