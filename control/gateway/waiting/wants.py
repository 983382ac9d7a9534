"""What a request is in a queue: read from its key, its route and its headers."""

from control.gateway.http1.server import Request
from control.gateway.limits import Limits
from control.gateway.waiting.rules import Want, deadline_seconds, served_priority
from control.routes.snapshot import RouteInfo


def want_of(
    request: Request, route: RouteInfo, limits: Limits, *, tier: str | None, input_tokens: int
) -> Want:
    """Raises a refusal if the deadline cannot be read."""
    asked = deadline_seconds(request.headers.get(b"x-deadline-ms"), limits.deadline_ms)
    seconds = min(asked or limits.total_seconds, limits.total_seconds)
    return Want(
        pool=frozenset([target.deployment for target in route.targets if target.weight > 0]),
        priority=served_priority(request.identity.priority, tier),
        tenant=request.identity.tenant_id,
        input_tokens=input_tokens,
        ends_by=request.received_at + seconds,
    )
