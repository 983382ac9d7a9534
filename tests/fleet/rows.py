"""Rows of the fleet for tests, in one line each."""

from control.models import CatalogModel, Deployment, Device, Node, Replica, Version
from control.states import DeploymentState, NodeState, ReplicaState


def a_node(name="n1", *, at, state=NodeState.READY, **fields):
    return Node.objects.create(
        name=name, identity=f"machine:{name}", state=state, heartbeat_at=at, **fields
    )


def a_device(node, total_bytes, *, at, kind="cpu", **fields):
    fields = {"uuid": f"{kind}-{node.name}", "name": "RAM"} | fields
    return Device.objects.create(
        node=node, kind=kind, memory_total_bytes=total_bytes, read_at=at, **fields
    )


def a_version(model="m", name="v1", **fields):
    found, _ = CatalogModel.objects.get_or_create(name=model)
    fields = {"engine": {"kind": "stub", "version": "1"}, "digest": f"{model}-{name}"} | fields
    return Version.objects.create(model=found, name=name, **fields)


def a_deployment(name="d", *, version=None, wanted=1, state=DeploymentState.ACTIVE, **fields):
    return Deployment.objects.create(
        name=name,
        version=version or a_version(model=f"m-{name}"),
        replicas_wanted=wanted,
        state=state,
        **fields,
    )


def a_replica(deployment, node=None, *, at, state=ReplicaState.READY, generation=1, **fields):
    return Replica.objects.create(
        deployment=deployment,
        version=deployment.version,
        node=node,
        state=state,
        generation=generation,
        state_at=at,
        **fields,
    )
