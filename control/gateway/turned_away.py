"""Requests that are refused before they are calls: all are counted, and some leave a trace."""

from typing import NamedTuple

from control.gateway.endpoints import INFERENCE
from control.gateway.errors import Refusal
from control.gateway.http1.request import Request
from control.gateway.recording import trace_context, tracing
from control.gateway.shared import Shared
from control.metering.records import Refused
from control.routes.snapshot import RouteInfo
from control.telemetry.traces import Trace


class Unfit(NamedTuple):
    """What was asked, where, and which member of it was at fault. Never what the member said."""

    endpoint: str
    code: str
    param: str
    wait_seconds: float | None


def turn_away(
    shared: Shared, request: Request, refusal: Refusal, route: RouteInfo | None = None
) -> None:
    """`route`: the one that it was for, once that is known."""
    shared.count_refused(request.identity, code_of(refusal))
    endpoint = INFERENCE.get(request.path)
    if endpoint is None or not shared.spool.has_room:
        return  # no call was asked for; or only what must be is written down
    now = shared.clock.now()
    room = shared.stranger_room if request.identity is None else shared.turned_away_room
    if not room.take(now):
        return
    unfit = Unfit(endpoint, code_of(refusal), refusal.param or "", refusal.wait_seconds)
    decisions = [unfit, refusal.why] if refusal.why else [unfit]
    decisions += [shared.replicas.candidates(route)] if route else []
    stages = {"settle": round((now - request.received_at) * 1_000_000)}
    shared.outbox.add(record_of(shared, request, refusal, route, stages, decisions))


def code_of(refusal: Refusal) -> str:
    """By which it is counted."""
    return refusal.code or "invalid_request"


def record_of(
    shared: Shared,
    request: Request,
    refusal: Refusal,
    route: RouteInfo | None,
    stages: dict[str, int],
    decisions: list[object],
) -> Refused:
    """One refusal with its trace: what a request, or a call that came to no engine, ended with."""
    identity, code = request.identity, code_of(refusal)
    ended_at, spent = shared.clock.wall(), shared.clock.now() - request.received_at
    shared.tally.add("traces_kept_total", reason=tracing.REFUSED)
    return Refused(
        tenant=identity.tenant if identity else "",
        key_id=identity.key_id if identity else None,
        code=code,
        minute=int(ended_at) // 60 * 60,
        count=0,  # it is counted already, with the others of its minute
        call_id=request.id,
        route=route.name if route else "",
        status=refusal.status,
        started_at=ended_at - spent,
        ended_at=ended_at,
        trace=Trace(
            kept=tracing.REFUSED,
            stages=stages,
            decisions=tracing.recorded(decisions),
            error=code,
            **trace_context.link_of(request.headers),
        ),
    )
