"""What is written down of one call: opened at dispatch, progress each second, closed once."""

from typing import Any

import msgspec

from control.gateway.bodies.wire import Ask
from control.gateway.calls.attempt import Attempt
from control.gateway.calls.tokens import Tokens
from control.gateway.errors import Headers, Refusal
from control.gateway.http1.request import Request
from control.gateway.recording import trace_context, tracing
from control.gateway.recording.outbox import OnWritten
from control.gateway.recording.tracing import Marks, Seen
from control.gateway.routing import caching
from control.gateway.routing.rules import Chosen
from control.gateway.shared import Shared
from control.gateway.streams import chunks
from control.gateway.turned_away import code_of, record_of
from control.metering import records
from control.routes.snapshot import RouteInfo
from control.states import Outcome, Priority, TokensSource
from control.telemetry.traces import Trace, Try

FINISH_REASON_MAX = 32


class Ending(msgspec.Struct, frozen=True, gc=False):
    """How a call ended. Token times are of the clock that never jumps."""

    outcome: Outcome
    status: int
    attempts: int
    delivered_tokens: int
    first_token_at: float | None
    last_token_at: float


class Journal:
    def __init__(
        self, shared: Shared, request: Request, route: RouteInfo, ask: Ask, priority: Priority
    ) -> None:
        self.marks = Marks(shared.clock.now())
        self.in_windows = False  # tokens come as a judge lets them, not as they are made
        self.error = ""  # code of the refusal that it ended with
        self.cached_source = ""  # what cached tokens are from, where it is not `tokens_source`
        self._shared = shared
        self._call_id = request.id
        self._priority = priority  # the one it is served with
        self._identity = request.identity
        self._route = route
        self._is_sampled = tracing.is_sampled(request.id, route.sample)
        self._request = request
        self.headers: Headers = ()  # of the answer
        if b"traceparent" in request.headers:
            told = trace_context.traceparent(
                request.id, trace_context.own_span(request.id), sampled=self._is_sampled
            )
            self.headers = ((b"traceresponse", told.encode()),)
        self._ask = ask
        self._received_at = request.received_at
        self.started_at = shared.clock.wall()
        self._noted: chunks.Usage | None = None
        self.is_open = self.is_opening = False  # in the spool, or about to be

    def traceparent(self, attempt: int) -> bytes:
        """For the engine, which does not hear of the caller's own trace."""
        return trace_context.for_engine(self._call_id, attempt, sampled=self._is_sampled)

    def opened(self, attempt: Attempt, on_written: OnWritten) -> None:
        """Once, at the first attempt; `on_written` is told at the end of the turn.

        Of attempts in that turn it is told once, and is to send what is the last one then.
        """
        if self.is_open:
            return on_written(True)
        if self.is_opening:
            return None
        self.is_opening = True

        def written(good: bool) -> None:
            self.is_open, self.is_opening = good, False
            on_written(good)

        record = records.Open(*self._whose(attempt), self.started_at, self._ask.input_estimate)
        return self._shared.outbox.add(record, written)

    def _whose(self, attempt: Attempt) -> tuple[Any, ...]:
        """What records begin with, from the call's begin to its end."""
        identity, info, ask = self._identity, attempt.live.info, self._ask
        return (
            self._call_id,
            identity.tenant_id,
            identity.project_id,
            identity.key_id,
            self._route.name,
            info.version_id,
            info.id,
            ask.called,
            ask.stream,
            self._priority,
        )

    def noted(self, usage: chunks.Usage | None) -> None:
        """It is written down already."""
        self._noted = usage

    def progressed(self, attempt: Attempt) -> None:
        usage = attempt.reader.usage() if attempt.reader else None
        if usage and usage != self._noted:
            self._noted = usage
            self._shared.outbox.add(
                records.Progress(self._call_id, usage.input, usage.cached, usage.output)
            )

    def decided(self, decision: object) -> None:
        """Kept as it is: most calls are not looked at, and nothing is written of it then."""
        self.marks.decisions.append(decision)

    def routed(self, choice: Chosen) -> None:
        self.marks.routed_at = self._shared.clock.now()
        self.marks.decisions.append(choice)

    def flag(self, name: str) -> None:
        self.marks.flags += (name,)

    def gave_up(
        self, attempt: Attempt, why: str, outcome: Outcome = Outcome.UPSTREAM_ERROR
    ) -> None:
        """The call goes on without it: what it used is nobody's but the platform's."""
        usage, source = attempt.tokens(outcome)
        self._lost(attempt, why, (usage.input, usage.output), source)

    def went_on(self, attempt: Attempt, choice: Chosen | None) -> None:
        """Another engine takes the prompt and the answer so far as its prompt, once more."""
        if choice:
            self.decided(choice)
        if attempt.refused_rest:
            return  # it had not begun
        usage, source = attempt.tokens(Outcome.UPSTREAM_ERROR)
        self._lost(attempt, "continued", (usage.input + usage.output, 0), source)

    def _lost(
        self, attempt: Attempt, why: str, tokens: tuple[int, int], source: TokensSource
    ) -> None:
        until, (tokens_in, tokens_out) = self._microseconds(self._shared.clock.now()), tokens
        begun = self._microseconds(attempt.sent_at)
        self.error = ""
        self.marks.tries.append(Try(attempt.live.info.id, why, until, *tokens, begun, source))
        tally = self._shared.tally
        tally.add("lost_tokens_total", tokens_in, reason=why, token_class="input")
        tally.add("lost_tokens_total", tokens_out, reason=why, token_class="output")

    def refused(self, refusal: Refusal, *, unseen: bool) -> None:
        """By no engine. So many are refused at times that only some leave a trace."""
        if not unseen:
            self.error = refusal.code or ""
            return  # its end is written down
        shared, route = self._shared, self._route
        self.error = code_of(refusal)
        shared.count_refused(self._identity, self.error)
        if not shared.trace_room.take(shared.clock.now()):
            return
        self.decided(shared.replicas.candidates(route))
        stages, decisions = self._stages(), self.marks.decisions
        shared.outbox.add(record_of(shared, self._request, refusal, route, stages, decisions))

    def closed(self, attempt: Attempt, ending: Ending, tokens: Tokens) -> records.Close:
        """All that `opened` said too, so that an event can be made of it alone."""
        usage, source = tokens
        if source is TokensSource.ENGINE and usage.input:
            attempt.live.density.saw(usage.input, self._ask.text_bytes)
        if self._ask.stream and usage.input and attempt.answer:
            usage = self._with_cached(attempt, usage, ending.outcome)
        if self._ask.stream:
            delivered = min(ending.delivered_tokens, usage.output)
        else:
            delivered = usage.output if ending.outcome is Outcome.COMPLETE else 0
        marks, now = self.marks, self._shared.clock.now()
        # The last try is among those it went on without: it waited for another in vain.
        is_untold = attempt.reached or ending.attempts == len(marks.tries)
        close = records.Close(
            *self._whose(attempt),
            ending.attempts,
            ending.outcome,
            ending.status,
            attempt.finish_reason[:FINISH_REASON_MAX],
            *(usage.input, usage.cached, usage.output, usage.reasoning, delivered),
            source,
            self.started_at,
            self._wall(ending.first_token_at),
            self._shared.clock.wall(),
            self.cached_source,
            marks.flags,
            tuple(marks.tries),
            self._trace(self._why_kept(ending, now), attempt, ending),
            self._ask.fields.get("n", 1),
            attempt.answer is not None and attempt.answer.cut,
            self._ask.input_estimate if is_untold and not usage.input else 0,
        )
        self._shared.outbox.add(close)
        self._count(ending, usage)
        self._shared.failures.ended(close, self.error)
        return close

    def _with_cached(self, attempt: Attempt, usage: chunks.Usage, outcome: Outcome) -> chunks.Usage:
        """An engine says at the end what was cached, if it comes to that."""
        now = self._shared.clock.now()
        if usage.cached:
            attempt.live.cache_hits.saw(usage.cached, usage.input, now)
        elif not attempt.answer.tells_cached and attempt.is_cut_short(outcome):
            self.cached_source = TokensSource.ESTIMATED
            cached = caching.estimated(usage.input, attempt.live.cache_hits.ratio(now))
            return msgspec.structs.replace(usage, cached=cached)
        return usage

    def _why_kept(self, ending: Ending, now: float) -> str:
        received_at, first = self._received_at, ending.first_token_at
        is_odd = self._is_sampled or self.marks.tries or ending.outcome is not Outcome.COMPLETE
        if not is_odd and tracing.is_fast(now - received_at, self._shared.limits):
            return ""
        seen = Seen(
            ending.outcome,
            ending.status,
            first - received_at if first is not None and self._ask.stream else None,
            now - received_at,
            len(self.marks.tries),
        )
        kept = tracing.why_kept(self._is_sampled, seen, self._shared.limits)
        if ending.outcome is Outcome.REJECTED and not kept:
            return tracing.REFUSED if self._shared.trace_room.take(now) else ""
        return kept

    def _trace(self, kept: str, attempt: Attempt, ending: Ending) -> Trace | None:
        if not kept:
            return None
        self._shared.tally.add("traces_kept_total", reason=kept)
        info = attempt.live.info
        return Trace(
            kept=kept,
            stages=self._stages(
                connect=attempt.connected_at,
                engine_queue=attempt.head_at,
                first_token=ending.first_token_at,
                last_token=ending.last_token_at,
            ),
            decisions=tracing.recorded(self.marks.decisions),
            error=self.error,
            engine=info.engine,
            model=info.model,
            **trace_context.link_of(self._request.headers),
        )

    def _stages(self, **at_engine: float | None) -> dict[str, int]:
        """When each ended, of those that came; `at_engine` where it came to one."""
        marks = self.marks
        ends = {
            "read": marks.read_at,
            "admit": marks.admitted_at,
            "wait": marks.turn_at,
            "route": marks.routed_at,
            **at_engine,
            "settle": self._shared.clock.now(),
        }
        return {stage: self._microseconds(at) for stage, at in ends.items() if at}

    def _microseconds(self, at: float) -> int:
        return round((at - self._received_at) * 1_000_000)

    def _wall(self, at: float | None) -> float | None:
        return None if at is None else self.started_at + at - self._received_at

    def _count(self, ending: Ending, usage: chunks.Usage) -> None:
        counted = self._shared.counted
        names = counted.names(self._route.name, self._identity.tenant, self._priority)
        counted.ended(names, ending.outcome, ending.attempts, usage)
        if ending.first_token_at is None or not self._ask.stream:
            return
        counted.tally.put(names.ttft, ending.first_token_at - self._received_at)
        if usage.output > 1 and not self.in_windows:
            spent = ending.last_token_at - ending.first_token_at
            counted.tally.put(names.tpot, spent / (usage.output - 1))
