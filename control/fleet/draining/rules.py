"""When a draining engine may be stopped: no gateway sends it calls, and none runs on it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

SETTLE_SECONDS = 2.0  # for gateways that tell nothing: of the release before this one
SILENT_SECONDS = 5.0  # a gateway tells of itself each second
UNHEARD_SECONDS_MAX = 10.0  # a silent gateway is waited for no longer
GONE_SECONDS = 60.0  # a gateway as silent as that has ended, or is cut off
# After the deadline, for gateways to move what can go on elsewhere: they look once a second, and
# their clocks may be a little off.
HANDOVER_SECONDS = 5.0
NAMED = 3  # gateways, in a reason


@dataclass(frozen=True)
class GatewayFacts:
    owner: str
    replicas_version: int  # by which it serves
    silent_seconds: float
    calls: int = 0  # of its own on the draining replica


@dataclass(frozen=True)
class Draining:
    """`engine_calls`: running and waiting, as the engine says; None if it does not say."""

    since: datetime
    by: datetime | None
    unrouted_version: int | None  # the first that sends it no calls; None: nobody wrote it down
    has_served: bool
    is_alive: bool
    engine_calls: int | None


@dataclass(frozen=True)
class Stop:
    reason: str


@dataclass(frozen=True)
class Wait:
    reason: str


def judge(replica: Draining, gateways: list[GatewayFacts], at: datetime) -> Stop | Wait:
    if not replica.has_served:
        return Stop("it has served nobody")
    if not replica.is_alive:
        return Stop("its process has ended")
    if replica.by is not None and at >= replica.by + timedelta(seconds=HANDOVER_SECONDS):
        return Stop("its time to drain is over")
    if unheard := _unheard(replica, gateways, at):
        names = ", ".join(unheard[:NAMED])
        more = f" and {len(unheard) - NAMED} more" if len(unheard) > NAMED else ""
        return Wait(f"drains: {names}{more} may still send it calls")
    # Not negative: a clock that was put back must not make it wait for as long.
    if 0 <= (at - replica.since).total_seconds() < SETTLE_SECONDS:
        return Wait("drains: just unrouted")
    theirs = sum(gateway.calls for gateway in gateways if _lives(gateway))
    if theirs or replica.engine_calls:
        return Wait("drains: its calls run")
    if replica.engine_calls is None:
        return Wait("drains: it does not say whether calls run")
    return Stop("its calls have ended")


def _unheard(replica: Draining, gateways: list[GatewayFacts], at: datetime) -> list[str]:
    """Gateways that may not know yet; of silent ones only for a while."""
    version = replica.unrouted_version or 0
    behind = [one for one in gateways if one.replicas_version < version]
    patient = (at - replica.since).total_seconds() < UNHEARD_SECONDS_MAX
    return sorted(
        one.owner
        for one in behind
        if _lives(one) or (patient and one.silent_seconds < GONE_SECONDS)
    )


def _lives(gateway: GatewayFacts) -> bool:
    return gateway.silent_seconds <= SILENT_SECONDS
