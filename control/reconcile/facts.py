"""What is wanted and what was seen, read once for one plan."""

from collections import defaultdict
from dataclasses import fields
from datetime import datetime

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.db.models import F, Max, Prefetch, Q, Window
from django.db.models.functions import RowNumber

from control.fleet import recycle
from control.models import Deployment, Node, Override, Replica, Reservation
from control.placement import books
from control.placement import facts as placement
from control.reconcile.leaving import is_spare
from control.reconcile.rules import is_short
from control.reconcile.world import (
    DeploymentFacts,
    Ended,
    Heartbeat,
    Policy,
    ReplicaFacts,
    World,
)
from control.states import (
    REPLICA_FINAL,
    DeploymentState,
    Hindrance,
    NodeState,
    ReplicaState,
    ReservationState,
)

ENDED_READ = 16  # enough for every back-off to have reached its limit


def database_now() -> datetime:
    """The database's clock: heartbeats are stamped by it too, so nodes' clocks do not matter."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


def world(at: datetime) -> World:
    live, ended = _live(), _ended()
    rows = (
        Deployment.objects.filter(
            Q(pk__in=[*live])
            | Q(state=DeploymentState.ACTIVE, replicas_wanted__gt=0)
            | ~Q(note="", hindrance="")
        )
        .select_related("version__model", "version__measure")
        .prefetch_related("version__peaks", _overrides())
        .annotate(generation=Max("replicas__generation"))
        .order_by("pk")
    )
    left = _left([replica.pk for found in live.values() for replica in found if replica.leaving])
    deployments = tuple(_deployment(row, live[row.pk], ended[row.pk], left) for row in rows)
    # At rest nothing is placed: then nobody asks for the devices and who holds them.
    short = any(is_short(deployment, at) for deployment in deployments)
    return World(
        at=at,
        policy=_policy(settings.WEIR_RECONCILE),
        deployments=deployments,
        nodes=tuple(books.nodes(at)) if short else (),
        quotas=tuple(books.quotas()) if short else (),
        heartbeats=tuple(
            Heartbeat(node.pk, node.name, NodeState(node.state), node.heartbeat_at, node.state_at)
            for node in Node.objects.exclude(state=NodeState.REMOVED).order_by("pk")
        ),
    )


def _overrides() -> Prefetch:
    """In one query for all deployments: each of them asks what its launches need."""
    return Prefetch("overrides", Override.objects.filter(dropped_at=None))


def _left(replica_ids: list[int]) -> dict[int, frozenset[int]]:
    """Deployment → devices that replicas of it are leaving."""
    found = defaultdict(set)
    if replica_ids:
        rows = Reservation.objects.filter(replica__in=replica_ids, state=ReservationState.HELD)
        for deployment_id, device_id in rows.values_list("replica__deployment_id", "device_id"):
            found[deployment_id].add(device_id)
    return {deployment_id: frozenset(ids) for deployment_id, ids in found.items()}


def _policy(given: dict) -> Policy:
    if unknown := sorted(given.keys() - {field.name for field in fields(Policy)}):
        known = ", ".join(field.name for field in fields(Policy))
        raise ImproperlyConfigured(f"WEIR_RECONCILE names {unknown}: known are {known}")
    return Policy(**given)


def _live() -> dict[int, list[Replica]]:
    rows = Replica.objects.exclude(state__in=REPLICA_FINAL).defer("log_tail", "engine_key")
    found = defaultdict(list)
    for row in rows.select_related("node", "deployment").order_by("generation"):
        found[row.deployment_id].append(row)
    return found


def _ended() -> dict[int, list[Replica]]:
    """The last launches of the version that is wanted now, newest first."""
    newest = Window(RowNumber(), partition_by=F("deployment"), order_by=F("generation").desc())
    rows = Replica.objects.filter(
        state__in=REPLICA_FINAL,
        version=F("deployment__version"),
        deployment__state=DeploymentState.ACTIVE,
    ).defer("log_tail", "engine_key")
    rows = rows.annotate(is_cured=Q(override__isnull=False))
    found = defaultdict(list)
    for row in rows.annotate(place=newest).filter(place__lte=ENDED_READ).order_by("-generation"):
        found[row.deployment_id].append(row)
    return found


def _deployment(
    row: Deployment,
    live: list[Replica],
    ended: list[Replica],
    left: dict[int, frozenset[int]],
) -> DeploymentFacts:
    need, replicas = None, tuple(_replica(replica) for replica in live)
    if not row.version.is_external:
        spare = is_spare(replicas, row.replicas_min)
        need = placement.need(
            row.version, row, avoid=left.get(row.pk, frozenset()), expendable=spare
        )
    return DeploymentFacts(
        id=row.pk,
        state=DeploymentState(row.state),
        version_id=row.version_id,
        wanted=row.replicas_wanted,
        need=need,
        note=row.note,
        hindrance=Hindrance(row.hindrance),
        launch_after=row.launch_after,
        retry_at=row.retry_at,
        generation=row.generation or 0,
        recycle=recycle.of(row.recycle),
        replicas=replicas,
        ended=tuple(_over(replica) for replica in ended),
    )


def _replica(row: Replica) -> ReplicaFacts:
    leaving = row.leaving or _departure(row.node)
    return ReplicaFacts(
        id=row.pk,
        generation=row.generation,
        state=ReplicaState(row.state),
        state_at=row.state_at,
        is_current=row.version_id in (None, row.deployment.version_id) and not leaving,
        leaving=leaving,
        node=row.node.name if row.node else "",
        node_state=NodeState(row.node.state) if row.node else None,
        progress_at=row.progress_at,
        ready_at=row.ready_at,
        calls=row.calls,
        host_memory_bytes=row.host_memory_bytes,
        host_memory_ready_bytes=row.host_memory_ready_bytes,
        on_preemptible=bool(row.node and row.node.is_preemptible),
        leaves_by=row.node and row.node.leaving_by,
        leaves_since=row.node and row.node.leaving_since,
    )


def _departure(node: Node | None) -> str:
    if node is None or not node.draining:
        return ""
    why = f" ({node.leaving_reason})" if node.leaving_reason else ""
    if node.leaving_by:
        return f"node {node} goes at {node.leaving_by:%H:%M:%S} UTC{why}"
    return f"node {node} is drained{why}"


def _over(row: Replica) -> Ended:
    return Ended(
        state=ReplicaState(row.state),
        ended_at=row.ended_at or row.state_at,
        ready_at=row.ready_at,
        cause=row.cause,
        reason=row.reason,
        retry=row.retry,
        cured=row.is_cured,
    )
