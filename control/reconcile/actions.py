"""Carries out one step of a plan, if what the plan saw still holds."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import assert_never

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from control.fleet import orders
from control.models import Deployment, IllegalMove, Node, Replica, SnapshotPart
from control.placement import actions as placement
from control.placement.world import Placed
from control.reconcile.world import (
    Action,
    BackOff,
    Drain,
    Fail,
    Lose,
    MoveNode,
    Note,
    Start,
    Stop,
    Wake,
)
from control.states import DeploymentState, Part, ReplicaState

Seen = Mapping[int, ReplicaState]  # by replica, when the plan was made


def carry_out(action: Action, *, by: str, at: datetime, seen: Seen | None = None) -> bool:
    """False means that another worker was first, or the world has moved on: the next tick sees."""
    match action:
        case Start():
            return start(action, by=by, at=at)
        case MoveNode():
            return _move_node(action, at=at)
        case BackOff():
            return _write(action, launch_after=action.launch_after)
        case Note():
            return _write(action)
        case Wake() | Drain() | Stop() | Fail() | Lose():
            return _move_replica(action, seen or {}, by=by, at=at)
        case _:
            assert_never(action)


def start(action: Start, *, by: str, at: datetime) -> bool:
    """A new launch with its memory, in one transaction: refused whole if either is taken."""
    try:
        with transaction.atomic():
            deployment = Deployment.objects.select_for_update().get(pk=action.deployment_id)
            if not _still_wanted(deployment, action):
                return False
            replica = Replica.objects.create(
                deployment=deployment,
                version_id=action.version_id,
                generation=action.generation,
                created_at=at,
                state_at=at,
            )
            _place(replica, action, by=by, at=at)
            if deployment.note or deployment.hindrance:
                _write(Note(deployment.pk, ""))
    except IntegrityError:
        return False
    return True


def _write(action: BackOff | Note, **more: datetime) -> bool:
    """Gateways hear of a hindrance, and of its end: calls wait for this deployment."""
    with transaction.atomic():
        row = Deployment.objects.select_for_update().filter(pk=action.deployment_id).first()
        if row is None:
            return False
        told = (row.hindrance, row.hindrance_cause)
        if told != (action.hindrance, action.cause) or (action.hindrance and more):
            SnapshotPart.raise_version(Part.ROUTES)
        hindrance = {"hindrance": action.hindrance, "hindrance_cause": action.cause}
        if action.hindrance != row.hindrance:
            hindrance["hindered_at"] = Now() if action.hindrance else None
        Deployment.objects.filter(pk=row.pk).update(note=action.note, **hindrance, **more)
    return True


def _still_wanted(deployment: Deployment, action: Start) -> bool:
    active = deployment.state == DeploymentState.ACTIVE
    return active and deployment.version_id == action.version_id


def _place(replica: Replica, action: Start, *, by: str, at: datetime) -> None:
    if action.placed is None:
        replica.move(
            ReplicaState.STARTING,
            reason="waits for two good probes",
            by=by,
            at=at,
            **_external_address(replica),
        )
        return
    node_id, beside = action.placed.node_id, action.placed.host_bytes
    node = placement.lock_ram(node_id) if beside else Node.objects.get(pk=node_id)
    replica.move(
        ReplicaState.PLACED, reason=action.reason, by=by, at=at, node=node, **_room(action.placed)
    )
    if beside:
        placement.book_ram(replica, beside, at=at)
    placement.book(replica, action.placed.shares)
    transaction.on_commit(partial(orders.prepare, replica.pk, node.name))


def _room(placed: Placed) -> dict:
    return {"room": placed.room, "kv_bytes": placed.kv_bytes}


def _external_address(replica: Replica) -> dict:
    upstream = replica.deployment.version.upstream
    calls = (replica.deployment.version.memory or {}).get("calls")
    slots = calls or settings.WEIR_EXTERNAL_SLOTS
    return {"host": upstream.host, "port": upstream.port, "slots": slots}


def _move_replica(
    action: Wake | Drain | Stop | Fail | Lose, seen: Seen, *, by: str, at: datetime
) -> bool:
    replica = Replica.objects.select_related("node").get(pk=action.replica_id)
    if replica.state != seen.get(replica.pk, replica.state):
        return False  # one that seemed stuck may serve by now
    try:
        match action:
            case Wake():
                return _wake(replica, action, by=by, at=at)
            case Drain():
                return _drain(replica, action, by=by, at=at)
            case Stop():
                return replica.move(ReplicaState.STOPPED, reason=action.reason, by=by, at=at)
            case Lose():
                return replica.move(ReplicaState.LOST, reason=action.reason, by=by, at=at)
            case Fail():
                return _fail(replica, action, by=by, at=at)
    except IllegalMove:
        return False  # it has moved since the plan was made


def _drain(replica: Replica, action: Drain, *, by: str, at: datetime) -> bool:
    """Gateways stop routing to it with this commit; its node stops it when it is idle."""
    usual = at + timedelta(seconds=settings.WEIR_DRAIN_SECONDS)
    drain_by = max(at, min(usual, action.by or usual))
    with transaction.atomic():
        moved = {"reason": action.reason, "by": by, "at": at, "drain_by": drain_by}
        moved["sleep_level"] = action.sleep
        if not replica.move(ReplicaState.DRAINING, **moved):
            return False
        if replica.node:
            transaction.on_commit(partial(orders.stop, replica.pk, replica.node.name))
    return True


def _wake(replica: Replica, action: Wake, *, by: str, at: datetime) -> bool:
    """Its node wakes it with the next look. One without a place makes room for a launch."""
    try:
        with transaction.atomic():
            moved = {"reason": action.reason, "by": by, "at": at, "sleep_level": 0}
            if not replica.move(ReplicaState.WAKING, progress_percent=0, phase="waking", **moved):
                return False
            placement.restore(replica, at=at)
            SnapshotPart.raise_version(Part.ROUTES)
    except IntegrityError:
        replica.refresh_from_db()
        reason = "another launch has its memory by now: it is stopped, and a new one is launched"
        return _drain(replica, Drain(replica.pk, reason), by=by, at=at)
    return True


def _fail(replica: Replica, action: Fail, *, by: str, at: datetime) -> bool:
    with transaction.atomic():
        if not replica.move(
            ReplicaState.FAILED, reason=action.reason, by=by, at=at, cause=action.cause
        ):
            return False
        if action.release:
            placement.release(replica, at=at)
        elif replica.node:
            transaction.on_commit(partial(orders.stop, replica.pk, replica.node.name))
    return True


def _move_node(action: MoveNode, *, at: datetime) -> bool:
    node = Node.objects.get(pk=action.node_id)
    return node.state == action.old and node.move(action.new, reason=action.reason, at=at)
