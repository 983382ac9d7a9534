"""One try of a call at one engine: what comes of it is read, judged and told to the call."""

from typing import assert_never

from control.gateway import errors
from control.gateway.bodies.wire import Ask
from control.gateway.calls.answered import Failed, Rejected, Unserved, Whole, meaning_of
from control.gateway.calls.caller import Caller
from control.gateway.calls.plan import reader_of, shown
from control.gateway.calls.sent import Sent
from control.gateway.calls.tokens import NO_TOKENS, NO_WORK, Tokens, estimated
from control.gateway.errors import Refusal
from control.gateway.http1.sending import SPOILT
from control.gateway.routing import causes
from control.gateway.routing.health import Cause
from control.gateway.routing.live import Live
from control.gateway.shared import Shared
from control.gateway.streams.chunks import Usage
from control.gateway.streams.continued import Continued
from control.gateway.streams.relay import Piece, Reader
from control.states import Outcome, TokensSource

_BROKEN = "The engine's answer broke off."
_ERROR_BYTES_MAX = 64 * 1024


class Attempt(Sent):
    """`continued` is an answer so far, which another engine was lost in."""

    reader: Reader | Continued | None = None
    finish_reason = ""
    refused_rest = ""  # why this engine would not go on with an answer
    cause: Cause | None = None  # it failed in this way
    head_at = 0.0  # the engine began to answer
    _usage: Usage | None = None
    _status = 0
    _bytes = 0
    _broke = False

    def __init__(
        self,
        caller: Caller,
        shared: Shared,
        ask: Ask,
        live: Live,
        continued: Continued | None = None,
    ) -> None:
        super().__init__(caller, shared, ask, live)
        self._continued = continued
        if ask.endpoint == "tokenize":
            self._usage = NO_TOKENS  # whoever asks only how many tokens there are pays for none
        self._parts: list[bytes] = []
        self._last_byte_at = self.sent_at

    @property
    def answer(self) -> Reader | None:
        """The stream as far as it came, of whichever engines."""
        reader = self.reader or self._continued
        return reader.reader if isinstance(reader, Continued) else reader

    def is_cut_short(self, outcome: Outcome) -> bool:
        """The engine that began to answer did not come to its end."""
        whole = outcome in (Outcome.COMPLETE, Outcome.INCOMPLETE)
        return not whole or self._continued is not None or self.answer.cut

    def forget(self) -> None:
        """What it did is nobody's: the call begins anew."""
        self.reader = self._usage = None
        self.reached = False
        self._parts.clear()

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
            return self._send_again()
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
        match meaning_of(self.ask, self._status, body):
            case Whole() as whole:
                self._answer(whole, body)
            case Rejected(refusal, message):
                self._reject(refusal, message)
            case Unserved(refusal):
                self._leave()
                self._caller.on_refusal(refusal, Outcome.REJECTED)
            case Failed(refusal, cause):
                self._failed(refusal, cause)
            case never:
                assert_never(never)

    def _answer(self, whole: Whole, body: bytes) -> None:
        self._usage = whole.usage or self._usage
        self.finish_reason = whole.finish_reason
        body = shown(self._plan, body, has_choices=whole.has_choices)
        self._leave()
        self._shared.replicas.succeeded(self.live)
        self._caller.on_answer(body)

    def _reject(self, refusal: Refusal, message: str) -> None:
        self._leave()
        self._shared.replicas.succeeded(self.live)
        if self._continued:
            self.refused_rest = message
            return self._caller.on_refusal(errors.UpstreamFailed(_BROKEN), Outcome.TRUNCATED)
        return self._caller.on_refusal(refusal, Outcome.REJECTED)

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
