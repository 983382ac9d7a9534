"""What holds for every call of one key on one route: read once, and used while both stay."""

from typing import NamedTuple

from control.gateway.admission.credit import Buyer
from control.gateway.known.salts import salt_of
from control.gateway.known.terms import Terms
from control.gateway.limits import Limits
from control.gateway.waiting.rules import served_priority
from control.routes.snapshot import Identity, RouteInfo


class Footing(NamedTuple):
    route: RouteInfo
    terms: Terms
    salt: str  # of engines' prefix caches
    pool: frozenset[str]  # deployments that its calls wait for
    prompt_tokens_most: int | None  # that an engine holds of one call: its context
    waiting_seconds: float  # for a slot
    total_seconds: float  # in all, unless the call names less


def footing_of(identity: Identity, route: RouteInfo, terms: Terms, limits: Limits) -> Footing:
    contexts = [target.context_tokens for target in route.targets]
    deadline = (route.deadline_ms or 0) / 1000 or limits.total_seconds
    return Footing(
        route=route,
        terms=terms,
        salt=salt_of(identity.tenant_id, route),
        pool=frozenset([target.deployment for target in route.targets if target.weight > 0]),
        prompt_tokens_most=min((most for most in contexts if most is not None), default=None),
        waiting_seconds=_waiting_seconds(route, limits),
        total_seconds=min(deadline, limits.total_seconds),
    )


def _waiting_seconds(route: RouteInfo, limits: Limits) -> float:
    return limits.waiting_seconds if route.waiting_seconds is None else route.waiting_seconds


def buyer_of(identity: Identity, route: RouteInfo, tier: str | None) -> Buyer:
    """Who pays for one of them, and as how urgent a call."""
    return Buyer(identity.tenant_id, served_priority(identity.priority, route.priority, tier))
