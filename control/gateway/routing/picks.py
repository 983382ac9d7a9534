"""What one call wants of its replica, read once when it arrives."""

from control.gateway.bodies.wire import Ask
from control.gateway.http1.request import Request
from control.gateway.limits import Limits
from control.gateway.routing import keys, targets
from control.gateway.routing.candidates import Pick
from control.gateway.waiting.rules import Want, served_priority
from control.routes.snapshot import RouteInfo
from control.states import Priority, RoutingPolicy

KEYED = frozenset({RoutingPolicy.PREFIX, RoutingPolicy.STICKY})  # by what a call comes back for
_CONVERSATION = b"x-weir-conversation"


def pick_of(request: Request, route: RouteInfo, ask: Ask, want: Want, limits: Limits) -> Pick:
    return Pick(
        tie=int(request.id[-16:], 16),
        policy=route.policy,
        key=_key(request, route, ask, limits) if route.policy in KEYED else None,
        batch=want.priority is Priority.BATCH,
        kv_tokens=want.kv_tokens,
    )


def route_for(request: Request, route: RouteInfo, ask: Ask, at: float) -> RouteInfo:
    """By the route's rules; `at` is the time of day, in epoch seconds."""
    identity = request.identity
    asked = targets.Asked(
        tenant=identity.tenant,
        priority=served_priority(identity.priority, route.priority, ask.service_tier),
        input_tokens=ask.input_estimate,
        hour=targets.hour_of(at),
        headers=request.headers,
    )
    return targets.narrowed(route, asked)


def _key(request: Request, route: RouteInfo, ask: Ask, limits: Limits) -> int | None:
    tenant = request.identity.tenant_id
    if route.policy == RoutingPolicy.PREFIX:
        salt = keys.key_salt(tenant, route.name, shared=route.shared_prefix)
        return keys.prefix_key(ask.fields, salt, limits.prefix_blocks)
    name = request.headers.get(_CONVERSATION) or (ask.conversation or "").encode()
    return keys.conversation_key(name, keys.key_salt(tenant, "", shared=False)) if name else None
