"""A kept call as spans, in OpenTelemetry's words: the one place that knows them (pure).

Names of semantic-conventions-genai as of 1.36; they are in motion, hence all here.
"""

from dataclasses import dataclass, field
from typing import Any

from control.telemetry.traces import STAGES, Trace, Try

SERVER, CLIENT, INTERNAL = "server", "client", "internal"
_OPERATIONS = {
    "chat.completions": "chat",
    "messages": "chat",
    "responses": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
}
_ENGINES_PART = ("connect", "engine_queue", "first_token", "last_token")


@dataclass(frozen=True)
class KeptCall:
    """What a record of the spool says of it. `started_at` is when it had been read."""

    call_id: str
    route: str
    status: int
    started_at: float  # epoch seconds
    ended_at: float
    trace: Trace
    endpoint: str = ""
    stream: bool = False
    priority: str = ""
    outcome: str = "refused"
    replica_id: int | None = None
    attempts: int = 0
    finish_reason: str = ""
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    tries: tuple[Try, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Span:
    name: str
    kind: str
    trace_id: str  # hex, as the two below
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    link: str = ""
    link_state: str = ""


def spans_of(call: KeptCall) -> list[Span]:
    """The call, its stages here, and each request to an engine."""
    return [_whole(call), *_stages(call), *_tries(call)] + ([_last(call)] if call.attempts else [])


def _whole(call: KeptCall) -> Span:
    last = max(call.trace.stages.values(), default=0)
    return Span(
        name=call.endpoint or "refused",
        kind=SERVER,
        trace_id=_trace_id(call),
        span_id=_own(call),
        parent_id="",
        start_ns=_at(call, 0),
        end_ns=_at(call, last),
        attributes={
            "http.response.status_code": call.status,
            "weir.call.id": call.call_id,
            "weir.route": call.route,
            "weir.priority": call.priority,
            "weir.outcome": call.outcome,
            "weir.kept": call.trace.kept,
            **({"weir.flags": call.flags} if call.flags else {}),
            **_error(_failure(call)),
        },
        error=_failure(call),
        link=call.trace.link,
        link_state=call.trace.link_state,
    )


def _stages(call: KeptCall) -> list[Span]:
    """Ours only: the engine's are one span each."""
    spans, begin = [], 0
    for number, stage in enumerate(STAGES, 1):
        end = call.trace.stages.get(stage)
        if end is None or stage in _ENGINES_PART:
            begin = end or begin
            continue
        spans.append(
            Span(
                name=stage,
                kind=INTERNAL,
                trace_id=_trace_id(call),
                span_id=f"{number:016x}",
                parent_id=_own(call),
                start_ns=_at(call, begin),
                end_ns=_at(call, end),
            )
        )
        begin = end
    return spans


def _tries(call: KeptCall) -> list[Span]:
    spans, begin = [], call.trace.stages.get("wait", 0)
    for number, given_up in enumerate(call.tries, 1):
        attributes = _asked(call) | {
            "weir.replica.id": given_up.replica_id,
            "gen_ai.usage.input_tokens": given_up.input_tokens,
            "gen_ai.usage.output_tokens": given_up.output_tokens,
        }
        end = max(given_up.until_us, begin)
        spans.append(_request(call, number, (begin, end), attributes, given_up.why))
        begin = end
    return spans


def _last(call: KeptCall) -> Span:
    stages = call.trace.stages
    begin = stages.get("route", 0)
    end = max([stages.get(stage, 0) for stage in _ENGINES_PART] + [begin])
    end = stages.get("settle", end) if _failure(call) else end
    attributes = _asked(call) | {
        "weir.replica.id": call.replica_id or 0,
        "gen_ai.response.model": call.trace.model,
        "gen_ai.usage.input_tokens": call.input_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": call.cached_input_tokens,
        "gen_ai.usage.reasoning.output_tokens": call.reasoning_tokens,
    }
    if call.finish_reason:
        attributes["gen_ai.response.finish_reasons"] = (call.finish_reason,)
    if call.stream and "first_token" in stages:
        seconds = (stages["first_token"] - begin) / 1_000_000
        attributes["gen_ai.response.time_to_first_chunk"] = seconds
    return _request(call, call.attempts, (begin, end), attributes, _failure(call))


def _request(
    call: KeptCall, attempt: int, times: tuple[int, int], attributes: dict[str, Any], error: str
) -> Span:
    operation = attributes["gen_ai.operation.name"]
    return Span(
        name=f"{operation} {call.route}",
        kind=CLIENT,
        trace_id=_trace_id(call),
        span_id=_engine(call, attempt),
        parent_id=_own(call),
        start_ns=_at(call, times[0]),
        end_ns=_at(call, times[1]),
        attributes=attributes | _error(error),
        error=error,
    )


def _asked(call: KeptCall) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": _OPERATIONS.get(call.endpoint, call.endpoint),
        "gen_ai.provider.name": call.trace.engine or "external",
        "gen_ai.request.model": call.route,
        "gen_ai.request.stream": call.stream,
    }


def _error(code: str) -> dict[str, str]:
    return {"error.type": code} if code else {}


def _failure(call: KeptCall) -> str:
    if call.trace.error:
        return call.trace.error
    return "" if call.outcome in ("complete", "incomplete") else call.outcome


def _at(call: KeptCall, microseconds: int) -> int:
    since_read = microseconds - call.trace.stages.get("read", 0)
    return int(call.started_at * 1_000_000 + since_read) * 1000


def _trace_id(call: KeptCall) -> str:
    return call.call_id.removeprefix("req_")


def _own(call: KeptCall) -> str:
    return _trace_id(call)[:16]


def _engine(call: KeptCall, attempt: int) -> str:
    return f"{int(_trace_id(call)[16:], 16) + attempt - 1:016x}"
