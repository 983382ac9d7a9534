"""Changes to nodes, as operators ask for them; reconcile moves the replicas."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Least

from control import checks
from control.fleet.nodes import rules
from control.models import Node, Replica, SnapshotPart
from control.models.audit import record
from control.placement import actions as placement
from control.states import REPLICA_LIVE, REPLICA_MOVES, NodeState, Part, ReplicaState

END_SECONDS = 20  # of a host's last moments: its engines are ended, not only unrouted
_STAYS = {"draining": False, "leaving_by": None, "leaving_since": None, "leaving_reason": ""}


def cordon(node: str, value: bool, *, by: str, reason: str, at: datetime) -> None:
    """Keep new replicas off a node, or let them on it again: then it stays, drain or not."""
    with transaction.atomic():
        found = _node(node)
        if found.cordoned == value and (value or not found.draining):
            return
        ended = {} if value else _STAYS
        Node.objects.filter(pk=found.pk).update(cordoned=value, **ended)
        verb = "cordon node" if value else "uncordon node"
        record(verb, node, by=by, reason=reason, at=at)


def drain_node(node: str, *, by: str, reason: str, at: datetime) -> None:
    """Nothing new on it, and all replicas move away, each when its successor serves."""
    with transaction.atomic():
        found = _node(node)
        if found.draining:
            return
        Node.objects.filter(pk=found.pk).update(
            cordoned=True, draining=True, leaving_since=at, leaving_reason=reason
        )
        record("drain node", node, by=by, reason=reason, at=at)


def leave(node: str, in_seconds: float, *, by: str, reason: str, at: datetime) -> None:
    """Its host goes: as a drain, but over before that instant, with or without successors."""
    checks.require(rules.leaving_problems(in_seconds))
    leave_by(node, at + timedelta(seconds=in_seconds), by=by, reason=reason, at=at)


def leave_by(node: str, leaving_by: datetime, *, by: str, reason: str, at: datetime) -> None:
    """An instant that is over already is now: what can still be saved is."""
    checks.require(rules.leaving_problems(max(0.0, (leaving_by - at).total_seconds())))
    with transaction.atomic():
        found = _node(node)
        if found.leaving_by == leaving_by:
            return
        Node.objects.filter(pk=found.pk).update(
            cordoned=True,
            draining=True,
            leaving_by=leaving_by,
            leaving_since=at,
            leaving_reason=reason,
        )
        # What drains already has no more time than its host.
        last = max(at, leaving_by - timedelta(seconds=END_SECONDS))
        draining = Replica.objects.filter(node=found, state=ReplicaState.DRAINING)
        if draining.update(drain_by=Least(F("drain_by"), last)):
            SnapshotPart.raise_version(Part.REPLICAS)
        change = (_shown(found.leaving_by), _shown(leaving_by))
        record("node leaves", node, by=by, reason=reason, at=at, change=change)


def is_leaving(node: str) -> bool:
    return Node.objects.filter(name=node).exclude(leaving_by=None).exists()


def describe(
    node: str,
    *,
    by: str,
    reason: str,
    at: datetime,
    pool: str | None = None,
    labels: dict[str, str] | None = None,
) -> None:
    """Another pool, or another whole set of labels. What runs there goes on."""
    checks.require(
        [
            *([] if pool is None else rules.pool_problems(pool)),
            *([] if labels is None else rules.label_problems(labels)),
        ]
    )
    with transaction.atomic():
        found = _node(node)
        before = {"pool": found.pool, "labels": found.labels}
        after = {
            "pool": found.pool if pool is None else pool,
            "labels": found.labels if labels is None else labels,
        }
        if before == after:
            return
        Node.objects.filter(pk=found.pk).update(**after)
        record("describe node", node, by=by, reason=reason, at=at, change=(before, after))


def remove_node(node: str, *, by: str, reason: str, at: datetime) -> None:
    """Strike off a node that will not return: what was booked on it is free again.

    Refused while it answers and runs something: its engines would go on unseen.
    """
    with transaction.atomic():
        found = _node(node)
        live = Replica.objects.filter(node=found, state__in=REPLICA_LIVE).order_by("pk")
        if found.state == NodeState.READY and live.exists():
            what = f"{node!r} answers and runs {live.count()} replica(s): cordon and drain it first"
            raise checks.refuse("node", what)
        for replica in live:
            _give_up(replica, by=by, reason=f"node {node} was removed: {reason}", at=at)
        placement.release_node(found, at=at)
        found.move(NodeState.REMOVED, reason=reason, at=at)
        record("remove node", node, by=by, reason=reason, at=at)


def _give_up(replica: Replica, *, by: str, reason: str, at: datetime) -> None:
    if ReplicaState.STOPPED not in REPLICA_MOVES[ReplicaState(replica.state)]:
        replica.move(ReplicaState.LOST, reason=reason, by=by, at=at)
    replica.move(ReplicaState.STOPPED, reason=reason, by=by, at=at)


def _node(name: str) -> Node:
    found = Node.objects.select_for_update().filter(name=name)
    node = found.exclude(state=NodeState.REMOVED).first()
    if node is None:
        raise checks.unknown("node", f"there is no node {name!r}")
    return node


def _shown(at: datetime | None) -> dict:
    return {"leaving_by": at.isoformat() if at else None}
