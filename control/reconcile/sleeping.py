"""The last replica of a deployment: when it sleeps, when it wakes, and when it is stopped. Pure."""

from datetime import datetime

from control.reconcile import recycling
from control.reconcile.world import DeploymentFacts, Drain, ReplicaFacts, Wake
from control.states import DeploymentState, NodeState, ReplicaState


def level_of(deployment: DeploymentFacts, replica: ReplicaFacts, at: datetime) -> int:
    """To which it falls asleep, being the last that serves; 0 if it is to be stopped."""
    serves = deployment.state is DeploymentState.ACTIVE and replica.state is ReplicaState.READY
    if not serves or not replica.is_current or _worn(deployment, replica, at):
        return 0
    return 0 if any(map(_is_asleep, deployment.replicas)) else deployment.sleep


def superfluous(
    deployment: DeploymentFacts, serving: int, wanted: int, at: datetime
) -> Drain | None:
    """The next sleeper that nobody would wake."""
    asleep = [one for one in deployment.replicas if one.state is ReplicaState.ASLEEP]
    for replica in asleep:
        if why := _why_stopped(deployment, replica, at):
            return Drain(replica.id, why)
    if asleep and wanted and serving >= wanted:
        return Drain(asleep[0].id, "slept, and others serve")
    if len(asleep) > 1:
        return Drain(asleep[0].id, "slept, and another one sleeps")
    return None


def awaited(deployment: DeploymentFacts) -> Wake | str:
    """Before anything is launched anew: what wakes, or what falls asleep and is woken then."""
    here = [one for one in deployment.replicas if one.node_state is NodeState.READY]
    for replica in here:
        if replica.state is ReplicaState.ASLEEP and replica.is_current:
            return Wake(replica.id, "is wanted again: it wakes")
    falling = [one for one in here if one.sleep_level and one.state is ReplicaState.DRAINING]
    if any(replica.is_current for replica in falling):
        return f"waits for #{falling[0].generation}, which falls asleep: it is woken then"
    return ""


def _why_stopped(deployment: DeploymentFacts, replica: ReplicaFacts, at: datetime) -> str:
    if deployment.state is not DeploymentState.ACTIVE:
        return f"the deployment is {deployment.state}"
    if not deployment.sleep:
        return "slept, which is not wanted any more"
    if not replica.is_current:
        return f"slept: {replica.leaving or 'it is not of the wanted version'}"
    return _worn(deployment, replica, at)


def _worn(deployment: DeploymentFacts, replica: ReplicaFacts, at: datetime) -> str:
    worn = deployment.recycle and recycling.why(replica, deployment.recycle, at)
    return f"is to be launched anew: it {worn}" if worn else ""


def _is_asleep(replica: ReplicaFacts) -> bool:
    falling = replica.state is ReplicaState.DRAINING and replica.sleep_level
    return bool(falling) or replica.state is ReplicaState.ASLEEP
