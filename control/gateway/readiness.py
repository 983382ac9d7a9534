"""Whether this process can serve a call: no names, since whoever asks has shown no key."""

from collections.abc import Collection
from typing import Any

from control.gateway.shared import Shared
from control.routes.snapshot import RouteInfo


def readiness(
    shared: Shared, routes: Collection[RouteInfo], age: float | None, *, draining: bool
) -> dict[str, Any]:
    """Green when a route can be served. `age` of what is known, in seconds: None is nothing."""
    ready = sum(shared.replicas.can_serve(route) for route in routes)
    too_old = age is None or age > shared.limits.snapshot_age_seconds_max
    return {
        "ready": ready > 0 and not too_old and not draining and shared.spool.has_room,
        "draining": draining,
        "routes": len(routes),
        "routes_ready": ready,
        "snapshot_age_seconds": age,
        "spool": "open" if shared.spool.has_room else "full",
        "counters": "shared" if shared.counters.shared else "local",
        "budgets": "away" if shared.money.is_away else "known",
    }
