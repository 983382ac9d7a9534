"""Which replicas run outside the pins of their deployment: replaced, successor first (pure)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from control.reconcile.world import ReplicaFacts
from control.states import ReplicaState

Held = Mapping[int, Collection[str]]  # replica → uuids of the devices that it holds


def marked(
    replicas: Sequence[ReplicaFacts], node: str, uuids: Collection[str], held: Held
) -> list[ReplicaFacts]:
    """A deployment's replicas; those outside its pins (none is "" and empty) as ones that leave."""
    if not node and not uuids:
        return list(replicas)
    return [_marked(one, why_outside(one, node, uuids, held.get(one.id, ()))) for one in replicas]


def why_outside(
    replica: ReplicaFacts, node: str, uuids: Collection[str], held: Collection[str]
) -> str:
    """Empty if it is where it may be, or nowhere yet."""
    if replica.state is ReplicaState.PENDING or not replica.node:
        return ""
    if node and replica.node != node:
        return f"is on {replica.node}, and its deployment is pinned to {node}"
    others = sorted(set(held) - set(uuids))
    if uuids and others:
        return f"holds {others[0]}, which its deployment does not name any more"
    return ""


def _marked(replica: ReplicaFacts, why: str) -> ReplicaFacts:
    if not why:
        return replica
    return replace(replica, is_current=False, leaving=replica.leaving or why)
