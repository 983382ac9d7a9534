"""An ordinary streamed call as one object, from its head to its end. All else unfolds it."""

from control.gateway.calls.bill import cost_of
from control.gateway.calls.share import Share
from control.gateway.express.asked import Asked
from control.gateway.express.call import ExpressCall, reason_of
from control.gateway.express.lane import Lane
from control.gateway.express.records import time_of
from control.gateway.express.stream_way import StreamWay
from control.gateway.express.unfolded import Unfolded
from control.gateway.http1.framing import unframed
from control.gateway.http1.server import Connection
from control.gateway.routing.rules import Chosen
from control.gateway.shared import Shared
from control.gateway.streams.chunks import Usage
from control.gateway.streams.relay import Piece, Reader
from control.gateway.waiting.lines import Line
from control.gateway.waiting.rules import Want, cost
from control.metering import records
from control.states import Outcome


class ExpressStream(ExpressCall):
    """What comes is read by the same `Reader` as in all streams, and goes out at once.

    An `Unfolded` call goes on with that reader, wherever in the stream it takes this one's place.
    """

    __slots__ = (
        "_told", "first_token_at", "head_at", "held", "last_byte_at", "last_token_at", "noted",
        "reader", "share", "shown_at", "tokens",
    )  # fmt: skip

    def __init__(
        self, shared: Shared, lane: Lane, connection: Connection, want: Want, choice: Chosen
    ) -> None:
        super().__init__(shared, lane, connection, want, choice)
        self.reader: Reader | None = None
        self.share: Share | None = None
        self.noted: Usage | None = None
        self.held = b""
        self.head_at = 0.0  # the engine began to answer
        self.tokens = 0
        self.last_byte_at = self.last_token_at = self.shown_at = 0.0
        self.first_token_at: float | None = None

    def _find_way(self) -> StreamWay:
        return self.lane.stream_ways.to(self.live)

    def dispatch(self, asked: Asked, line: Line) -> None:
        self._told = asked.chat.stream_options
        super().dispatch(asked, line)

    # --- what the engine answers ---

    def on_head(self, status: int, headers: dict[bytes, bytes]) -> None:
        is_events = headers.get(b"content-type", b"").startswith(b"text/event-stream")
        if self._attempt is None and status == 200 and is_events:
            shared = self.shared
            self.head_at = self.last_byte_at = shared.clock.now()
            self.reader = self.way.reader(self.asked.chat, self._told, shared.limits)
        else:
            self._tried().on_head(status, headers)

    def on_chunks(self, raw: bytes) -> bool:
        if self._attempt is not None:
            return self._attempt.on_chunks(raw)
        reader, connection = self.reader, self.connection
        shown = reader.skim(raw)
        if shown is None:
            return False
        self.last_byte_at = now = self.shared.clock.now()
        if self.first_token_at is None or connection.paused:
            self._show(unframed(raw) if shown is raw else shown, reader.tokens, now, content=True)
        else:
            (connection.write_chunks if shown is raw else connection.write)(shown)
            self.tokens = reader.tokens
            self.last_token_at = self.shown_at = now
        return True

    def on_data(self, data: bytes) -> None:
        if self._attempt is not None:
            return self._attempt.on_data(data)
        reader = self.reader
        self.last_byte_at = now = self.shared.clock.now()
        pieces = reader.feed(data)
        if reader.done or reader.error:
            return None if self._ends_with(pieces, now) else self._tried().on_read(pieces)
        if pieces:
            has_content = pieces[-1].content or any(piece.content for piece in pieces)
            self._show(_joined(pieces), reader.tokens_out, now, content=has_content)
        return None

    def on_end(self) -> None:
        if not self.ended:
            self._tried().on_end()  # and its last event has not come

    def _show(self, data: bytes, tokens: int, now: float, *, content: bool) -> None:
        connection = self.connection
        if connection.paused:
            return self.unfold().on_pieces([Piece(data, content)])
        if self.first_token_at is not None:
            connection.write(data)
        elif content:
            self.first_token_at = now
            data, self.held = self.held + data, b""
            self._start(data)
        else:
            self.held += data  # a role alone, or a comment: another replica may still be tried
            return None
        self.tokens, self.shown_at = tokens, now
        if content:
            self.last_token_at = now
        return None

    def _start(self, data: bytes) -> None:
        lane = self.lane
        self.connection.begin_stream(lane.stream_answer, self._id, lane.bundle.lines(), data)

    # --- its end ---

    def _ends_with(self, pieces: list[Piece], now: float) -> bool:
        """False if there is more to be said of its end, and nothing is done yet."""
        reader, shared, limits = self.reader, self.shared, self.shared.limits
        usage = reader.usage()
        if usage is None or not usage.input or reader.outcome() is not Outcome.COMPLETE:
            return False
        if shared.replicas.guards.deployments or self.connection.paused:
            return False
        began = self.first_token_at
        first = now if began is None else began
        if now - self.received_at > limits.slow_call_seconds:
            return False
        if first - self.received_at > limits.slow_first_token_seconds:
            return False
        self.first_token_at, self.last_token_at = first, now
        line = self._closed(usage, reader.finish_reason(), now)
        self.sending.let_finish()
        self._leave(now)
        self.ended = True
        shared.outbox.add_line(line, self.on_recorded)
        self._settle(usage)
        self._body = data = _joined(pieces)
        if began is None:
            self._body = b""
            self._start(self.held + data)
        return True

    def _give_back(self) -> None:
        if self.share is None:
            super()._give_back()
        else:
            self.share.give_back()

    def on_recorded(self, _good: bool) -> None:
        if self.connection.call is self:
            self.connection.end_stream(self._body)

    def _settle(self, usage: Usage) -> None:
        counted, names, first = self.shared.counted, self.lane.names, self.first_token_at
        if usage.cached:
            self.live.cache_hits.saw(usage.cached, usage.input, self.last_token_at)
        super()._settle(usage)
        counted.tally.put(names.ttft, first - self.received_at)
        if usage.output > 1:
            counted.tally.put(names.tpot, (self.last_token_at - first) / (usage.output - 1))

    def _closed(self, usage: Usage, reason: str, now: float) -> bytes:
        arrived = self.started_at - self.received_at
        return self.way.closed % (
            self._id,
            reason_of(reason),
            *(usage.input, usage.cached, usage.output, usage.reasoning, usage.output),
            *(self._started, time_of(arrived + self.first_token_at), time_of(arrived + now)),
        )

    # --- each second, and all else ---

    def sweep(self, now: float) -> None:
        if not self.ended and (self._unfolded or not self._goes_on(now)):
            self.unfold().sweep(now)

    def _goes_on(self, now: float) -> bool:
        """False if something is to be done; else what it has used so far is noted."""
        limits = self.shared.limits
        if self.connection.paused or now >= self.want.ends_by:
            return False
        if self.first_token_at is None:
            waited = now - self.received_at
            if now - self.sent_at > limits.first_byte_seconds or waited >= self.lane.silent_seconds:
                return False
        else:
            if now - self.last_byte_at > limits.between_bytes_seconds:
                return False
            if now - self.shown_at >= limits.keep_alive_seconds:
                return False
            self.shared.replicas.went_on(self.live)
        if self.reader is not None:
            self._note(self.reader, now)
        return True

    def _note(self, reader: Reader, now: float) -> None:
        shared, live = self.shared, self.live
        usage = reader.usage()
        if usage is None:
            prompt = live.density.tokens(self.asked.text_bytes, self.want.input_tokens)
            return shared.waiting.progressed(self, cost(prompt, 0, reader.parts))
        shared.waiting.progressed(self, cost_of(usage))
        if usage != self.noted:
            self.noted = usage
            shared.outbox.add(
                records.Progress(self._id.decode(), usage.input, usage.cached, usage.output)
            )
        if self.share is None:
            self.share = Share(shared.replicas, live, self.want)
            self.share.taken_before()
        return self.share.sweep(usage, now)

    def unfold(self) -> Unfolded:
        if self._unfolded is None:
            self._unfolded = call = Unfolded(self)
            self._attempt = call.take_over()
            if self.reader is not None:
                call.resume(self)
        return self._unfolded


def _joined(pieces: list[Piece]) -> bytes:
    return pieces[0].data if len(pieces) == 1 else b"".join([piece.data for piece in pieces])
