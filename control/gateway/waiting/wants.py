"""What a request is in a queue: read from its key, its route and its headers."""

from typing import Protocol

from control.gateway.admission.rules import Hold
from control.gateway.http1.server import Request
from control.gateway.limits import Limits
from control.gateway.waiting.rules import Want, deadline_seconds, served_priority
from control.routes.snapshot import RouteInfo


class Footing(Protocol):
    """What holds for all such calls."""

    route: RouteInfo
    pool: frozenset[str]
    prompt_tokens_most: int | None
    waiting_seconds: float
    total_seconds: float


def want_of(
    request: Request, footing: Footing, limits: Limits, *, tier: str | None, hold: Hold
) -> Want:
    """Raises a refusal if the deadline cannot be read."""
    seconds, header = footing.total_seconds, request.headers.get(b"x-deadline-ms")
    if header is not None:
        seconds = deadline_seconds(header, int(limits.total_seconds * 1000))
    identity, prompt, most = request.identity, hold.input_tokens, footing.prompt_tokens_most
    return Want(
        footing.pool,
        served_priority(identity.priority, footing.route.priority, tier),
        identity.tenant_id,
        prompt,
        request.received_at + seconds,
        footing.waiting_seconds,
        # An engine holds no more of one call than its context, however long the text looked.
        (prompt if most is None or prompt < most else most) + hold.output_tokens,
    )
