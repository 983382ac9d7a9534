"""Desired against observed: at most one step per deployment, with its reason."""

from datetime import datetime

from control.placement.displacing import Displaces, Waits, seek
from control.placement.fleet import Fleet
from control.placement.world import Placed, Unplaced
from control.reconcile import leaving, recycling, sleeping
from control.reconcile.backoff import held_back, note
from control.reconcile.world import (
    Action,
    DeploymentFacts,
    Drain,
    Fail,
    Heartbeat,
    Lose,
    MoveNode,
    ReplicaFacts,
    Start,
    Stop,
    Wake,
    World,
)
from control.states import DeploymentState, Hindrance, NodeState, Priority, ReplicaState

OUTDATED = "its version is no longer wanted"
_COMING = (
    ReplicaState.PREPARING,
    ReplicaState.STARTING,
    ReplicaState.LOADING,
    ReplicaState.WARMING,
    ReplicaState.WAKING,
)


def plan(world: World) -> list[Action]:
    """At most one action per deployment: the next tick sees the result and goes on."""
    actions: list[Action] = list(node_moves(world))
    fleet = Fleet(world.nodes, world.quotas)
    for deployment in sorted(world.deployments, key=_urgency):
        action = next_action(deployment, fleet, world)
        if isinstance(action, Start) and action.placed and deployment.need:
            fleet.reserve(action.placed, deployment.need)
        if action:
            actions.append(action)
    return actions


def node_moves(world: World) -> list[MoveNode]:
    moves = []
    for node in world.heartbeats:
        new, reason = _node_state(node, world)
        if new is not node.state:
            moves.append(MoveNode(node.node_id, node.state, new, reason))
    return moves


def lacks(deployment: DeploymentFacts, at: datetime) -> bool:
    """One more may have to be launched now: then its earlier launches matter."""
    current, _ = _counted(deployment)
    return len(current) < _wanted(deployment) or bool(recycling.successor_of(deployment, at))


def next_action(deployment: DeploymentFacts, fleet: Fleet, world: World) -> Action | None:
    for step in (_gone, _stalled, _over, _leaving, _sleepers, _surplus):
        if action := step(deployment, world):
            return action
    return _missing(deployment, fleet, world)


def _node_state(node: Heartbeat, world: World) -> tuple[NodeState, str]:
    if node.state is NodeState.REMOVED or node.at is None:
        return node.state, ""
    policy, silent = world.policy, (world.at - node.at).total_seconds()
    if silent <= policy.unknown_seconds:
        return NodeState.READY, "its heartbeat is back"
    if node.state is NodeState.LOST:
        return node.state, ""
    # After an outage of the database or of control every heartbeat is old, and all nodes would
    # be lost at once: a silence counts only as far as it was watched.
    watched = (world.at - node.state_at).total_seconds() if node.state_at else 0.0
    unknown = node.state is NodeState.UNKNOWN
    if unknown and watched >= policy.lost_seconds - policy.unknown_seconds:
        return NodeState.LOST, f"no heartbeat for {policy.lost_seconds:.0f} s"
    return NodeState.UNKNOWN, f"no heartbeat for {policy.unknown_seconds:.0f} s"


def _gone(deployment: DeploymentFacts, world: World) -> Action | None:
    for replica in deployment.replicas:
        if replica.node_state is NodeState.REMOVED:
            reason = f"node {replica.node} was removed"
            return Fail(replica.id, "node_removed", reason, release=True)
        if replica.node_state is NodeState.LOST and replica.state is not ReplicaState.LOST:
            return Lose(replica.id, f"node {replica.node} is silent; replaced elsewhere")
    return None


def _stalled(deployment: DeploymentFacts, world: World) -> Action | None:
    if deployment.is_external:
        return None  # an external engine may come when it likes
    for replica in deployment.replicas:
        if replica.node_state is not NodeState.READY:
            continue
        seen_at = max(replica.state_at, replica.progress_at or replica.state_at)
        idle = (world.at - seen_at).total_seconds()
        if replica.state is ReplicaState.PLACED and idle > world.policy.claim_seconds:
            return Fail(
                replica.id,
                "not_claimed",
                f"node {replica.node} did not take it within {world.policy.claim_seconds:.0f} s",
            )
        if replica.state in _COMING and idle > world.policy.stall_seconds:
            return Fail(
                replica.id,
                "stalled",
                f"no progress for {world.policy.stall_seconds:.0f} s while {replica.state}",
            )
    return None


def _over(deployment: DeploymentFacts, world: World) -> Action | None:
    for replica in deployment.replicas:
        if replica.state is ReplicaState.PENDING:
            return Stop(replica.id, "was never placed")
        if deployment.is_external and replica.state is ReplicaState.DRAINING:
            return Stop(replica.id, "an external engine is not ours to stop: no longer routed to")
    return None


def _leaving(deployment: DeploymentFacts, world: World) -> Action | None:
    return leaving.departure(deployment.replicas, world.at)


def _sleepers(deployment: DeploymentFacts, world: World) -> Action | None:
    current, _ = _counted(deployment)
    return sleeping.superfluous(deployment, len(current), _wanted(deployment), world.at)


def _surplus(deployment: DeploymentFacts, world: World) -> Action | None:
    current, old = _counted(deployment)
    wanted = _wanted(deployment)
    if deployment.state is not DeploymentState.ACTIVE and (current or old):
        why = f"the deployment is {deployment.state}"
        return Drain((current + old)[0].id, why)
    ready = sum(replica.state is ReplicaState.READY for replica in current)
    recycled = recycling.due(deployment, world.at) if len(current) == wanted + 1 else None
    if recycled and ready > wanted:
        replica, why = recycled
        return Drain(replica.id, f"is replaced anew: it {why}")
    if len(current) > wanted and not recycled:
        why = f"{len(current)} replicas where {wanted} are wanted"
        least = min(current, key=_least_missed)
        last = len(current) == 1 and not wanted
        level = sleeping.level_of(deployment, least, world.at) if last else 0
        return Drain(least.id, why, sleep=level)
    for replica in old:
        if replica.state is not ReplicaState.READY:
            return Drain(replica.id, f"{replica.leaving or OUTDATED}; it serves nobody")
    if old and len(old) > max(0, wanted - ready):
        return Drain(old[0].id, f"{old[0].leaving or OUTDATED}; the new one is ready")
    return None


def _missing(deployment: DeploymentFacts, fleet: Fleet, world: World) -> Action | None:
    current, old = _counted(deployment)
    if deployment.state is not DeploymentState.ACTIVE:
        return None  # its note is what the operator said
    quiet = len(current) == _wanted(deployment) and not old
    successor = recycling.successor_of(deployment, world.at) if quiet else ""
    if len(current) >= _wanted(deployment) and not successor:
        return note(deployment, "")
    if sleeper := sleeping.awaited(deployment):
        return sleeper if isinstance(sleeper, Wake) else note(deployment, sleeper)
    if held := held_back(deployment, world, is_served=bool(current or old)):
        return held.action
    if deployment.is_external:
        last, why = deployment.generation, "probes will tell"
        return Start(deployment.id, deployment.version_id, last + 1, None, why)
    return _placed(deployment, fleet, world, successor)


def _placed(
    deployment: DeploymentFacts, fleet: Fleet, world: World, successor: str
) -> Action | None:
    current, old = _counted(deployment)
    generation = deployment.generation + 1
    match seek(deployment.need, fleet):
        case Placed() as placed:
            reason = f"{successor}; {placed.reason}" if successor else placed.reason
            return Start(deployment.id, deployment.version_id, generation, placed, reason)
        case Displaces() if successor:
            what = f"{successor}, which waits for a place: it displaces nobody"
            return note(deployment, what)
        case Displaces(replicas=(first, *_)):
            name = deployment.need.name or f"deployment {deployment.id}"
            why = "for it sleeps" if first.asleep else "which is interactive"
            return Drain(first.replica_id, f"gives way to {name}, {why}")
        case Waits() as way:
            return note(deployment, f"waits for a place: {way}")
        case Unplaced() as unplaced:
            draining = any(r.state is ReplicaState.DRAINING for r in deployment.replicas)
            stale = [replica for replica in old if not replica.leaving]
            if stale and not draining:
                return Drain(stale[0].id, f"makes room for the wanted version: {unplaced}")
            is_coming = current or old or world.makes_room
            hindrance = Hindrance.NONE if is_coming else Hindrance.UNPLACED
            what = f"{successor}, which " if successor else ""
            return note(deployment, f"{what}waits for a place: {unplaced}", hindrance)


def _urgency(deployment: DeploymentFacts) -> tuple[int, int]:
    """The more urgent chooses first, and what it waits for is kept from the others."""
    priority = deployment.need.priority if deployment.need else Priority.STANDARD
    return list(Priority).index(Priority(priority)), deployment.id


def _wanted(deployment: DeploymentFacts) -> int:
    if deployment.state is not DeploymentState.ACTIVE:
        return 0
    return min(deployment.wanted, 1) if deployment.is_external else deployment.wanted


def _counted(deployment: DeploymentFacts) -> tuple[list[ReplicaFacts], list[ReplicaFacts]]:
    """Replicas that serve or will: of the wanted version, and of another one."""
    serving = [replica for replica in deployment.replicas if _counts(replica)]
    current = [replica for replica in serving if replica.is_current]
    return current, [replica for replica in serving if not replica.is_current]


def _counts(replica: ReplicaFacts) -> bool:
    if replica.state is ReplicaState.LOST:
        # Its node is back and looks after it this moment: either it runs on, or it is ended.
        return replica.node_state is NodeState.READY and not replica.sleep_level
    return replica.state not in (ReplicaState.DRAINING, ReplicaState.ASLEEP)


def _least_missed(replica: ReplicaFacts) -> tuple[bool, bool, int]:
    """Those not ready first, newest first; then on hosts that may go anyway; the oldest launch."""
    ready = replica.state is ReplicaState.READY
    return ready, not replica.on_preemptible, replica.generation if ready else -replica.generation
