"""What a call may wait for while no engine serves it: that one is started."""

from control.gateway import errors
from control.gateway.errors import Refusal
from control.gateway.shared import Shared
from control.gateway.waiting import rules, starts
from control.gateway.waiting.rules import Want
from control.gateway.waiting.starts import InVain
from control.routes.snapshot import RouteInfo


def seconds(shared: Shared, route: RouteInfo, want: Want, *, streams: bool) -> float:
    """How long it waits for that; 0 is not at all."""
    limits = shared.limits
    if not want.pool:
        return 0.0  # no deployment is behind the route: nothing will come
    return rules.cold_seconds(
        route.cold_start_seconds,
        limits.cold_start_seconds,
        whole_seconds_max=None if streams else limits.cold_start_whole_seconds,
    )


def in_vain(
    shared: Shared, route: RouteInfo, want: Want, limit_seconds: float = 0.0
) -> InVain | None:
    fallback = route.fallback
    wanted = want.pool | {fallback} if fallback else want.pool
    return shared.starts.in_vain(wanted, limit_seconds)


def hindered(shared: Shared, route: RouteInfo, vain: InVain) -> Refusal:
    return starts.refusal_of(vain, route.name, shared.limits.hindered_retry_seconds)


def refusal(shared: Shared, route: RouteInfo, want: Want) -> Refusal:
    if vain := in_vain(shared, route, want):  # it was worth to wait, but it came to nothing
        return hindered(shared, route, vain)
    took = route.start_seconds
    said = f" A start takes about {took:.0f} s." if took else ""
    text = f"The model behind '{route.name}' is not ready yet.{said}"
    wait_seconds = took or shared.limits.loading_retry_seconds
    return errors.ModelLoading(f"{text} Please try again shortly.", wait_seconds=wait_seconds)
