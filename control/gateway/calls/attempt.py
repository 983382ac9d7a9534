"""One try of a call at one engine: the request that goes out, and what its answer means."""

from control.gateway import errors
from control.gateway.bodies.wire import Ask
from control.gateway.calls.caller import Caller
from control.gateway.calls.outgoing import request_of
from control.gateway.calls.plan import Plan, reader_of, shown
from control.gateway.calls.share import Share
from control.gateway.calls.tokens import NO_TOKENS, NO_WORK, Tokens, estimated
from control.gateway.errors import Refusal
from control.gateway.http1.sending import SPOILT, Sending
from control.gateway.routing import causes
from control.gateway.routing.health import Cause
from control.gateway.routing.live import Live
from control.gateway.shared import Shared
from control.gateway.streams import chunks
from control.gateway.streams.continued import Continued
from control.gateway.streams.relay import Piece, Reader
from control.states import Outcome, TokensSource

_BROKEN = "The engine's answer broke off."
_ERROR_BYTES_MAX = 64 * 1024


class Attempt:
    """`continued` is an answer so far, which another engine was lost in."""

    reader: Reader | Continued | None = None
    finish_reason = ""
    refused_rest = ""  # why this engine would not go on with an answer
    cause: Cause | None = None  # it failed in this way
    reached = False  # the engine may have begun to work
    head_at = 0.0  # the engine began to answer
    _usage: chunks.Usage | None = None
    _status = 0
    _bytes = 0
    _over = _resent = _broke = False
    _sending: Sending | None = None

    def __init__(
        self,
        caller: Caller,
        shared: Shared,
        ask: Ask,
        live: Live,
        continued: Continued | None = None,
    ) -> None:
        self.live = live
        self._continued = continued
        self._caller = caller
        self._shared = shared
        self.ask = ask
        if ask.endpoint == "tokenize":
            self._usage = NO_TOKENS  # whoever asks only how many tokens there are pays for none
        self._parts: list[bytes] = []
        self._share = Share(shared.replicas, live, caller.want)
        self.sent_at = self._last_byte_at = shared.clock.now()

    def prepare(self, plan: Plan) -> None:
        """Take a slot of the replica; `send` comes next, in the same turn of the loop."""
        self._plan = plan
        self._request = request_of(plan, self.live, self._caller.id, self._caller.traceparent())
        self.live.attempts.add(self)
        self._share.take()

    def send(self) -> None:
        """Once: what it waited for is told also after it was left, or sent for another reason."""
        if self._sending is None and not self._over:
            self._sending = self.live.pool.send(self, self._request)

    @property
    def connected_at(self) -> float:
        """When the request went out: at once, or when there was a connection. 0.0 is not yet."""
        if self._sending is None or self._sending.upstream is None:
            return 0.0
        return self._sending.dialled_at or self.sent_at

    @property
    def answer(self) -> Reader | None:
        """The stream as far as it came, of whichever engines."""
        reader = self.reader or self._continued
        return reader.reader if isinstance(reader, Continued) else reader

    def is_at_engine(self) -> bool:
        """The engine has this request, or had it when it was lost."""
        sending = self._sending
        return self.reached or self._resent or sending is not None and sending.upstream is not None

    def is_cut_short(self, outcome: Outcome) -> bool:
        """The engine that began to answer did not come to its end."""
        whole = outcome in (Outcome.COMPLETE, Outcome.INCOMPLETE)
        return not whole or self._continued is not None or self.answer.cut

    def abort(self) -> None:
        """Close the engine's connection at once, so that it stops generating."""
        if self._over:
            return
        sending = self._sending
        self.reached |= sending is not None and sending.upstream is not None
        self._leave()
        if sending:
            sending.abort()

    @property
    def holds_a_slot(self) -> bool:
        """That another call could have."""
        return self._sending is not None and not self._over and self._share.is_of_use

    def forget(self) -> None:
        """What it did is nobody's: the call begins anew."""
        self.reader = self._usage = None
        self.reached = False
        self._parts.clear()

    def part(self) -> None:
        """Nothing more comes: what points back is let go, so that nobody has to look for it."""
        self._caller = self._sending = None

    def pause(self, paused: bool) -> None:
        """Let the engine's bytes wait in the socket while a slow tenant's buffer is full."""
        self._share.look_away()
        if not self._over:
            self._sending.pause(paused)

    def sweep(self, now: float, *, has_content: bool) -> None:
        """The engine is silent for too long: before its first token, or between two."""
        limits = self._shared.limits
        if self._over or not self.ask.stream:
            return
        if self.reader and (usage := self.reader.usage()):
            self._share.sweep(usage, now)
        if has_content:
            self._shared.replicas.went_on(self.live)
        elif self.reader and self.reader.parts:
            has_content = True  # that is held back: for a judge, or as what may be a stop word
        if not has_content and now - self.sent_at > limits.first_byte_seconds:
            self._shared.replicas.failed(self.live, Cause.SLOW)
            self.time_out("The engine did not begin to answer in time.")
        elif has_content and now - self._last_byte_at > limits.between_bytes_seconds:
            self._shared.replicas.failed(self.live, Cause.SILENT)
            self.time_out("The engine stopped answering.")

    def tokens(self, outcome: Outcome) -> Tokens:
        """What the engine says, or else what came and what the prompt may have been."""
        reader = self.reader or self._continued
        usage = reader.usage() if reader else self._usage
        if usage:
            return usage, TokensSource.ENGINE
        parts = reader.parts if reader else 0
        if self._status not in (0, 200) or not (parts or self.reached and outcome not in NO_WORK):
            return NO_TOKENS, TokensSource.ENGINE
        return estimated(self.ask, self.live, parts)

    # --- what the connection says ---

    def on_head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self.reached = True
        self._status = status
        self.head_at = self._last_byte_at = self._shared.clock.now()
        is_events = headers.get(b"content-type", b"").startswith(b"text/event-stream")
        if status == 200 and self.ask.stream and is_events:
            self.reader = self._continued or reader_of(self._plan, self.ask, self._shared.limits)

    def on_data(self, data: bytes) -> None:
        reader = self.reader
        if reader is None:
            return self._collect(data)
        self._last_byte_at = now = self._shared.clock.now()
        token = reader.glance(data)
        if token is not None:
            return self._caller.on_token(token, now)
        return self.on_read(reader.feed(data))

    def on_read(self, pieces: list[Piece]) -> None:
        """What the reader gave of some bytes, which may be the last."""
        reader = self.reader
        if pieces:
            self._caller.on_pieces(pieces)
        if (reader.done or reader.error) and not self._over:
            (self._sending.abort if reader.cut else self._sending.let_finish)()
            self._end_stream()

    def on_chunks(self, raw: bytes) -> bool:
        reader = self.reader
        shown = None if reader is None else reader.skim(raw)
        if shown is not None:
            self._last_byte_at = now = self._shared.clock.now()
            (self._caller.on_chunks if shown is raw else self._caller.on_token)(shown, now)
        return shown is not None

    def on_end(self) -> None:
        if self.reader is None:
            return self._judge_whole()
        if pieces := self.reader.finish():
            self._caller.on_pieces(pieces)
        return None if self._over else self._end_stream()

    def on_failure(self, reason: str, *, sent: bool, reused: bool) -> None:
        if reason == SPOILT:
            return self._spoilt()
        age = self._shared.clock.now() - self.sent_at
        if reused and age <= self._shared.limits.reused_seconds:
            # A kept-alive connection that the engine was just closing: it has not seen this.
            self._resent = True
            self._sending = self.live.pool.send(self, self._request)
            return None
        self._broke = True
        if self.reader:
            return self.on_end()
        self.reached = sent
        return self._failed(*causes.failure_of(reason, sent=sent, resent=self._resent))

    # --- what the answer means ---

    def _collect(self, data: bytes) -> None:
        self._bytes += len(data)
        limit = self._shared.limits.answer_bytes if self._status == 200 else _ERROR_BYTES_MAX
        if self._bytes > limit:
            self._sending.abort()
            return self._failed(errors.UpstreamFailed("The engine's answer is too large."))
        return self._parts.append(data)

    def _judge_whole(self) -> None:
        body = b"".join(self._parts)
        seen = chunks.look(body)
        if self._status != 200:
            return self._judge_error(seen, body)
        if seen is None or self.ask.stream and not seen.error:
            return self._failed(errors.UpstreamFailed("The engine's answer is not understood."))
        if found := chunks.error_of(seen):
            return self._failed(errors.from_engine(*found))
        self._usage = chunks.usage_of(seen) or self._usage
        self.finish_reason = (seen.choices[0].finish_reason or "") if seen.choices else ""
        body = shown(self._plan, body, has_choices=bool(seen.choices))
        self._leave()
        self._shared.replicas.succeeded(self.live)
        return self._caller.on_answer(body)

    def _judge_error(self, seen: chunks.Chunk | None, body: bytes) -> None:
        _, message, code = (seen and chunks.error_of(seen)) or (0, "", None)
        if self._status == 404 and body == causes.UNSERVED:
            self._leave()
            return self._caller.on_refusal(causes.unserved(self.ask.called), Outcome.REJECTED)
        if self._status in causes.NOT_OURS:
            return self._failed(*causes.STRANGER)
        refusal = errors.from_engine(self._status, message, code)
        if refusal.status < 500:
            self._leave()
            self._shared.replicas.succeeded(self.live)
            if self._continued:
                self.refused_rest = message
                return self._caller.on_refusal(errors.UpstreamFailed(_BROKEN), Outcome.TRUNCATED)
            return self._caller.on_refusal(refusal, Outcome.REJECTED)
        return self._failed(refusal)

    def _spoilt(self) -> None:
        """By the gateway itself, so that no other engine would do better."""
        self.abort()
        if caller := self._caller:
            caller.refuse(errors.UpstreamFailed("The engine's answer could not be handled."))

    def _end_stream(self) -> None:
        reader = self.reader
        outcome = reader.outcome()
        self.finish_reason = reader.finish_reason()
        if outcome in (Outcome.COMPLETE, Outcome.REJECTED):
            self._leave()
            self._shared.replicas.succeeded(self.live)
        else:
            self._lose(Cause.BROKE if self._broke else causes.cause_of(reader.error))
        refusal = reader.error or errors.UpstreamFailed(_BROKEN)
        self._caller.on_stream_end(outcome, refusal)

    def _failed(self, refusal: Refusal, cause: Cause | None = None) -> None:
        self._lose(cause or causes.cause_of(refusal))
        if self._continued:
            refusal = errors.UpstreamFailed(_BROKEN)
        self._caller.on_refusal(refusal, Outcome.UPSTREAM_ERROR)

    def _lose(self, cause: Cause) -> None:
        """Still counted as one of the engine's calls while that is judged."""
        self.cause = cause
        self._shared.replicas.failed(self.live, cause)
        self._leave()

    def time_out(self, message: str) -> None:
        self.leave(errors.UpstreamTimeout(message), Outcome.DEADLINE)

    def leave(self, refusal: Refusal, outcome: Outcome) -> None:
        self.abort()
        self._caller.on_refusal(refusal, outcome)

    def _leave(self) -> None:
        if not self._over:
            self._over = True
            self.live.attempts.discard(self)
            replicas = self._shared.replicas
            self._share.give_back()
            if self.reached:
                replicas.held(self.live, self._shared.clock.now() - self.sent_at)
