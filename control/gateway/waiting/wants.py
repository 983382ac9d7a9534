"""What a request is in a queue: read from its key, its route and its headers."""

from control.gateway.admission.rules import Hold
from control.gateway.http1.server import Request
from control.gateway.limits import Limits
from control.gateway.waiting.rules import Want, deadline_seconds, served_priority
from control.routes.snapshot import RouteInfo


def want_of(
    request: Request, route: RouteInfo, limits: Limits, *, tier: str | None, hold: Hold
) -> Want:
    """Raises a refusal if the deadline cannot be read."""
    ms_max = int(limits.total_seconds * 1000)
    asked = deadline_seconds(request.headers.get(b"x-deadline-ms"), ms_max)
    if asked is None and route.deadline_ms is not None:
        asked = route.deadline_ms / 1000
    seconds = min(asked or limits.total_seconds, limits.total_seconds)
    own = route.waiting_seconds
    return Want(
        pool=frozenset([target.deployment for target in route.targets if target.weight > 0]),
        priority=served_priority(request.identity.priority, route.priority, tier),
        tenant=request.identity.tenant_id,
        input_tokens=hold.input_tokens,
        ends_by=request.received_at + seconds,
        waiting_seconds=limits.waiting_seconds if own is None else own,
        kv_tokens=_kv_tokens(route, hold),
    )


def _kv_tokens(route: RouteInfo, hold: Hold) -> int:
    """An engine holds no more of one call than its context, however long the text looked."""
    prompt = hold.input_tokens
    for target in route.targets:
        if target.context_tokens is not None and target.context_tokens < prompt:
            prompt = target.context_tokens
    return prompt + hold.output_tokens
