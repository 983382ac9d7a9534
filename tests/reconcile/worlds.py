"""Worlds for the reconciler, told in a line."""

from datetime import UTC, datetime, timedelta

from control.placement import memory
from control.placement.world import DeviceFacts, Need, NodeFacts
from control.reconcile.rules import plan
from control.reconcile.world import DeploymentFacts, Ended, ReplicaFacts, World
from control.states import DeploymentState, NodeState, ReplicaState

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
GIB = memory.GIB
NEED = Need(1, 1, 1, {"cpu": memory.Sizes(GIB, GIB, GIB, GIB)})


def ago(seconds):
    return AT - timedelta(seconds=seconds)


def a_node(name="n1", *, total=64 * GIB, blocked=""):
    device = DeviceFacts(1, f"cpu-{name}", "RAM", "cpu", total)
    return NodeFacts(1, name, blocked, (device,))


def a_replica(state=ReplicaState.READY, generation=1, **fields):
    fields = {"state_at": ago(5), "node": "n1", "node_state": NodeState.READY} | fields
    return ReplicaFacts(generation, generation, ReplicaState(state), **fields)


def a_deployment(wanted=1, *replicas, **fields):
    last = max((replica.generation for replica in replicas), default=len(fields.get("ended", ())))
    fields = {"state": DeploymentState.ACTIVE, "need": NEED, "generation": last} | fields
    return DeploymentFacts(1, version_id=1, wanted=wanted, replicas=replicas, **fields)


def failed(seconds_ago, **fields):
    return Ended(ReplicaState.FAILED, ago(seconds_ago), **({"cause": "crashed"} | fields))


def only(deployment, *nodes):
    actions = plan(World(AT, (deployment,), nodes or (a_node(),)))
    assert len(actions) <= 1
    return actions[0] if actions else None
