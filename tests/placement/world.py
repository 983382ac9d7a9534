"""A host with cards and what is wanted on them, as rows."""

from datetime import UTC, datetime

from control.models import Replica
from control.placement import actions
from control.placement.memory import GIB
from control.placement.world import Room, Share
from control.states import ReplicaState
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica, a_version

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
VLLM = {"kind": "vllm", "version": "0.32.0"}


def a_host(name="n1", cards=1, **fields):
    node = a_node(name, at=AT, **fields)
    for number in range(cards):
        uuid = f"GPU-{name}-{number}"
        a_device(node, 80 * GIB, at=AT, kind="gpu", uuid=uuid, index=number, name=f"card {number}")
    return node


def a_launch(deployment, device, gib=20, first=0, *, generation=1, room=Room.SHARED, **fields):
    """A replica that holds so many GiB of a card."""
    fields = {"state": ReplicaState.READY, "room": room, "kv_bytes": GIB, "ready_at": AT} | fields
    replica = a_replica(deployment, device.node, at=AT, generation=generation, **fields)
    actions.book(replica, (Share(device.pk, ((first * GIB, (first + gib) * GIB),)),))
    return Replica.objects.select_related("node", "deployment", "version__model").get(pk=replica.pk)


def wants(name, priority="standard", share="shared", **fields):
    version = fields.pop("version", None) or a_version(f"m-{name}", engine=VLLM)
    fields["placement"] = {"share": share} | fields.pop("placement", {})
    return a_deployment(name, version=version, priority=priority, **fields)
