"""What is written down of one call: opened at dispatch, progress each second, closed once."""

import logging
from typing import NamedTuple

from control.gateway.calls.attempt import Attempt
from control.gateway.http1.request import Request
from control.gateway.shared import Shared
from control.gateway.streams import chunks
from control.gateway.wire import Ask
from control.metering import spool
from control.states import Outcome, Priority

log = logging.getLogger(__name__)

_FINISH_REASON_MAX = 32


class Ending(NamedTuple):
    """How a call ended. Token times are of the clock that never jumps."""

    outcome: Outcome
    status: int
    attempts: int
    delivered_tokens: int
    first_token_at: float | None
    last_token_at: float


class Journal:
    def __init__(
        self, shared: Shared, request: Request, route: str, ask: Ask, priority: Priority
    ) -> None:
        self._shared = shared
        self._call_id = request.id
        self._priority = priority  # the one it is served with
        self._identity = request.identity
        self._route = route
        self._ask = ask
        self._received_at = request.received_at
        self._started_at = shared.clock.wall()
        self._noted: chunks.Usage | None = None

    def opened(self, attempt: Attempt) -> bool:
        """False if it cannot be written: then nothing may be sent that nobody accounts for."""
        estimate = self._ask.input_estimate
        return self._append(spool.Open(**self._identified(attempt), input_estimate=estimate))

    def progressed(self, attempt: Attempt) -> None:
        usage = attempt.reader.usage() if attempt.reader else None
        if usage and usage != self._noted:
            self._noted = usage
            self._append(spool.Progress(self._call_id, usage.input, usage.cached, usage.output))

    def closed(self, attempt: Attempt, ending: Ending) -> None:
        usage, source = attempt.tokens(ending.outcome)
        if self._ask.stream:
            delivered = min(ending.delivered_tokens, usage.output)
        else:
            delivered = usage.output if ending.outcome is Outcome.COMPLETE else 0
        close = spool.Close(
            **self._identified(attempt),
            attempts=ending.attempts,
            outcome=ending.outcome,
            status=ending.status,
            finish_reason=attempt.finish_reason[:_FINISH_REASON_MAX],
            input_tokens=usage.input,
            cached_input_tokens=usage.cached,
            output_tokens=usage.output,
            reasoning_tokens=usage.reasoning,
            delivered_tokens=delivered,
            tokens_source=source,
            first_token_at=self._wall(ending.first_token_at),
            ended_at=self._shared.clock.wall(),
        )
        self._append(close)
        self._count(ending, usage)

    def _append(self, record: spool.Record) -> bool:
        try:
            self._shared.spool.append(record)
        except (OSError, spool.SpoolClosed):
            log.exception("call %s: a record is not in the spool", self._call_id)
            return False
        return True

    def _identified(self, attempt: Attempt) -> dict:
        """What open and close say alike, so that an event can be made of a close alone."""
        identity = self._identity
        return {
            "call_id": self._call_id,
            "tenant_id": identity.tenant_id,
            "project_id": identity.project_id,
            "key_id": identity.key_id,
            "route": self._route,
            "version_id": attempt.live.info.version_id,
            "replica_id": attempt.live.info.id,
            "endpoint": self._ask.endpoint,
            "stream": self._ask.stream,
            "priority": self._priority,
            "started_at": self._started_at,
        }

    def _wall(self, at: float | None) -> float | None:
        return None if at is None else self._started_at + at - self._received_at

    def _count(self, ending: Ending, usage: chunks.Usage) -> None:
        tally, route = self._shared.tally, self._route
        tally.add("calls_total", route=route, outcome=ending.outcome)
        tally.add("tokens_total", usage.input, route=route, token_class="input")
        tally.add("tokens_total", usage.output, route=route, token_class="output")
        if ending.first_token_at is None or not self._ask.stream:
            return
        tally.observe("ttft_seconds", ending.first_token_at - self._received_at)
        if usage.output > 1:
            spent = ending.last_token_at - ending.first_token_at
            tally.observe("tpot_seconds", spent / (usage.output - 1))
