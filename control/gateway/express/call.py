"""An ordinary call as one object: sent, answered whole, settled. All else unfolds it."""

import msgspec

from control.gateway.bodies.ordinary import read
from control.gateway.bodies.wire import Ask
from control.gateway.calls.attempt import Attempt
from control.gateway.calls.journal import FINISH_REASON_MAX
from control.gateway.errors import Refusal
from control.gateway.express.asked import Asked
from control.gateway.express.lane import Lane
from control.gateway.express.records import time_of
from control.gateway.express.unfolded import Unfolded
from control.gateway.express.whole_way import WholeWay
from control.gateway.http1.sending import Sending
from control.gateway.http1.server import Connection
from control.gateway.routing.rules import Chosen
from control.gateway.shared import Shared
from control.gateway.streams import chunks
from control.gateway.waiting.lines import Line
from control.gateway.waiting.rules import Want, cost
from control.states import Outcome

_encode = msgspec.json.Encoder().encode
_REASONS = {reason: _encode(reason) for reason in ("", "stop", "length")}


class ExpressCall:
    """It was let in and goes to a replica at once; then its answer comes, whole and good.

    Whatever else happens is the business of an `Unfolded` call, which takes its place and is told
    what came so far: here nothing is done that such a call would do in another way.
    """

    __slots__ = (
        "__weakref__", "_ask", "_attempt", "_body", "_has_head", "_id", "_line", "_started",
        "_unfolded", "asked", "choice", "connection", "ended", "is_open", "lane", "live",
        "received_at",
        "request", "sending", "sent_at", "shared", "started_at", "want", "way",
    )  # fmt: skip

    def __init__(
        self, shared: Shared, lane: Lane, connection: Connection, want: Want, choice: Chosen
    ) -> None:
        request = connection.request
        self.shared = shared
        self.lane = lane
        self.connection = connection
        self.want = want
        self.choice = choice
        self.live = choice.replica
        self.way = self._find_way()  # which fails, if at all, before anything is taken
        self._id = request.id.encode()
        self.received_at = request.received_at
        self.ended = self.is_open = self._has_head = False  # open: in the spool
        self.sending: Sending | None = None
        self._body: bytes | None = None  # of the answer
        self._ask: Ask | None = None
        self._unfolded: Unfolded | None = None
        self._attempt: Attempt | None = None

    def _find_way(self) -> WholeWay:
        return self.lane.whole_ways.to(self.live)

    def dispatch(self, asked: Asked, line: Line) -> None:
        """First what is sent and written down is made, then it is under way."""
        shared, live, want = self.shared, self.live, self.want
        self.asked, self._line = asked, line
        self.started_at, self.sent_at = shared.clock.wall(), shared.clock.now()
        self._started = time_of(self.started_at)
        self.request = self.way.request(self._id, asked)
        opened = self.way.opened % (self._id, self._started, want.input_tokens)
        shared.calls.add(self)
        live.attempts.add(self)
        shared.replicas.took(live, want)
        line.dispatched(self, self.sent_at)
        shared.replicas.retries.earn()
        shared.outbox.add_line(opened, self.on_written)

    def on_written(self, good: bool) -> None:
        if self._unfolded is None and good:
            self.is_open = True
            self.sending = self.live.pool.send(self, self.request)
        else:
            self.unfold().on_written(good)

    # --- what the engine answers ---

    def on_head(self, status: int, headers: dict[bytes, bytes]) -> None:
        if self._attempt is None and status == 200:
            self._has_head = True
        else:
            self._tried().on_head(status, headers)

    def on_data(self, data: bytes) -> None:
        if self._attempt is None and self._body is None:
            self._body = data
        else:
            self._tried().on_data(data)

    def on_chunks(self, raw: bytes) -> bool:
        return False

    def on_end(self) -> None:
        if self._attempt is not None or not self._ends_well():
            self._tried().on_end()

    def on_failure(self, reason: str, *, sent: bool, reused: bool) -> None:
        if not self.ended:
            self._tried().on_failure(reason, sent=sent, reused=reused)

    def _ends_well(self) -> bool:
        """False if there is more to be said of its end, and nothing is done yet."""
        shared, now = self.shared, self.shared.clock.now()
        seen = chunks.look_whole(self._body or b"")
        if seen is None or seen.usage is None or seen.error is not None:
            return False
        usage = chunks.usage_from(seen.usage)
        if not usage.input or shared.replicas.guards.deployments:
            return False
        if now - self.received_at > shared.limits.slow_call_seconds:
            return False
        reason = (seen.choices[0].finish_reason or "") if seen.choices else ""
        line = self._closed(usage, reason, now)
        self._leave(now)
        self.ended = True
        shared.outbox.add_line(line, self.on_recorded)
        self._settle(usage)
        return True

    def _leave(self, now: float) -> None:
        """What may fail comes first: then it can still be unfolded."""
        live, replicas = self.live, self.shared.replicas
        replicas.succeeded(live)
        replicas.held(live, now - self.sent_at)
        self._give_back()
        live.attempts.discard(self)
        self.sending = None  # which knows this call: both would be left to the collector

    def _give_back(self) -> None:
        self.shared.replicas.gave_back(self.live, self.want, self.want.kv_tokens)

    def on_recorded(self, _good: bool) -> None:
        """Its answer follows its record: with those of the turn's other calls in a row, since
        each that goes out alone wakes whoever reads it."""
        if self.connection.call is not self:
            return  # its client has left
        body, name, lane = self._body, self.way.name, self.lane
        body = name.renamed(body) if name else body
        self.connection.answer(lane.answer, self._id, lane.bundle.lines(), body)

    def _settle(self, usage: chunks.Usage) -> None:
        shared, want = self.shared, self.want
        shared.calls.discard(self)
        try:
            self.live.density.saw(usage.input, self.asked.text_bytes)
            shared.counted.ended(self.lane.names, Outcome.COMPLETE, 1, usage)
        finally:
            self._line.settle(self, cost(usage.input, usage.cached, usage.output))
            more_in, more_out = (
                usage.input - want.input_tokens,
                usage.output - self.asked.output_tokens,
            )
            try:
                shared.counters.exchange.settle(self.lane.bundle, more_in, more_out)
            finally:
                shared.waiting.advance()

    def _closed(self, usage: chunks.Usage, reason: str, now: float) -> bytes:
        """Its record: what it delivered came in one piece, at its end."""
        ended = time_of(self.started_at + now - self.received_at)
        return self.way.closed % (
            self._id,
            reason_of(reason),
            *(usage.input, usage.cached, usage.output, usage.reasoning, usage.output),
            *(self._started, ended, ended),
        )

    # --- all else ---

    @property
    def ask(self) -> Ask:
        """As all other calls have it; the same one whenever it is asked for."""
        if self._ask is None:
            self._ask = read(self.asked.raw, depth_max=self.shared.limits.depth)
            self._ask.salt = self.lane.footing.salt
        return self._ask

    def unfold(self) -> Unfolded:
        if self._unfolded is None:
            call = self._unfolded = Unfolded(self)
            self._attempt = attempt = call.take_over()
            if self._has_head:
                attempt.on_head(200, {})
            if self._body:
                attempt.on_data(self._body)
        return self._unfolded

    def _tried(self) -> Attempt:
        """What is told of the engine from here on."""
        self.unfold()
        return self._attempt

    def sweep(self, now: float) -> None:
        if self.ended:
            return  # since the sweep began
        if self._unfolded or self.connection.paused or now >= self.want.ends_by:
            self.unfold().sweep(now)

    def drain(self) -> None:
        if not self.ended:
            self.unfold().drain()

    def refuse(self, refusal: Refusal) -> None:
        self.unfold().refuse(refusal)

    def on_client_gone(self) -> None:
        if not self.ended:
            self.unfold().on_client_gone()

    def on_writable(self) -> None:
        """An answer is written whole."""

    # --- as one of its replica's calls ---

    def is_at_engine(self) -> bool:
        return self.sending is not None and self.sending.upstream is not None

    def time_out(self, message: str) -> None:
        self._tried().time_out(message)

    def leave(self, refusal: Refusal, outcome: Outcome) -> None:
        self._tried().leave(refusal, outcome)


def reason_of(finish_reason: str) -> bytes:
    """As JSON."""
    return _REASONS.get(finish_reason) or _encode(finish_reason[:FINISH_REASON_MAX])
