"""Which ready replica has served long enough to be replaced, and why (pure)."""

from datetime import datetime

from control.fleet.recycle import Recycle
from control.reconcile.world import DeploymentFacts, ReplicaFacts
from control.states import ReplicaState

HOUR_SECONDS = 3600


def due(deployment: DeploymentFacts, at: datetime) -> tuple[ReplicaFacts, str] | None:
    """The oldest of those that are past a limit; one at a time, and only of the wanted version."""
    wanted = deployment.recycle
    if wanted is None or deployment.is_external:
        return None  # an external engine is not ours to launch anew
    for replica in sorted(deployment.replicas, key=lambda one: one.generation):
        serves = replica.state is ReplicaState.READY and replica.is_current
        if serves and (reason := why(replica, wanted, at)):
            return replica, reason
    return None


def successor_of(deployment: DeploymentFacts, at: datetime) -> str:
    """Why one more is launched than is wanted: only while all of them serve. Empty: none is."""
    at_rest = (ReplicaState.READY, ReplicaState.LOST)  # of one on a silent node nothing is known
    if any(replica.state not in at_rest for replica in deployment.replicas):
        return ""
    found = due(deployment, at)
    return f"successor of #{found[0].generation}, which {found[1]}" if found else ""


def why(replica: ReplicaFacts, wanted: Recycle, at: datetime) -> str:
    """Empty if no limit is reached."""
    if wanted.calls is not None and replica.calls >= wanted.calls:
        return f"has served {replica.calls:,} calls of {wanted.calls:,}"
    hours = _hours(replica, at)
    if wanted.hours is not None and hours >= wanted.hours:
        return f"has been ready for {hours:.1f} h of {wanted.hours:g} h"
    growth = _growth(replica)
    if wanted.host_memory_growth is not None and growth >= wanted.host_memory_growth:
        return f"holds {growth:.0%} more of the host's memory than when it became ready"
    return ""


def _hours(replica: ReplicaFacts, at: datetime) -> float:
    ready_at = replica.ready_at
    return (at - ready_at).total_seconds() / HOUR_SECONDS if ready_at else 0.0


def _growth(replica: ReplicaFacts) -> float:
    """0 while it has not been measured twice."""
    before, now = replica.host_memory_ready_bytes, replica.host_memory_bytes
    return now / before - 1 if before and now else 0.0
