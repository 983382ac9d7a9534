"""What is wanted and what was seen, read once for one plan."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import datetime

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.db.models import Max, Prefetch, Q

from control.fleet import recycle
from control.models import Deployment, Node, Override, Reservation
from control.placement import books
from control.placement import facts as placement
from control.placement.world import Need
from control.reconcile import launches, pins
from control.reconcile.leaving import is_spare
from control.reconcile.rules import lacks
from control.reconcile.world import (
    DeploymentFacts,
    Heartbeat,
    Policy,
    ReplicaFacts,
    World,
)
from control.states import (
    DeploymentState,
    Hindrance,
    NodeState,
    ReservationState,
)


def database_now() -> datetime:
    """The database's clock: heartbeats are stamped by it too, so nodes' clocks do not matter."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


def world(at: datetime) -> World:
    nodes = list(Node.objects.defer("identity", "host").order_by("pk"))
    live = launches.live(nodes)
    rows = (
        Deployment.objects.filter(
            Q(pk__in=[*live.of])
            | Q(state=DeploymentState.ACTIVE, replicas_wanted__gt=0)
            | ~Q(note="", hindrance="")
        )
        .select_related("version")
        .annotate(generation=Max("replicas__generation"))
        .order_by("pk")
    )
    held = _held(rows)
    found = [
        _deployment(row, pins.marked(live.of[row.pk], row.node, _named(row), held)) for row in rows
    ]
    # At rest nothing is launched: then nobody asks what launches need, what devices there are, and
    # what failed before.
    lacking = {one.id: one.replicas for one in found if lacks(one, at)}
    needs = _needs(lacking, live.marked) if lacking else {}
    ended = launches.ended([*lacking]) if lacking else {}
    short = bool(needs)
    return World(
        at=at,
        policy=_policy(settings.WEIR_RECONCILE),
        deployments=tuple(
            replace(one, need=needs.get(one.id), ended=tuple(ended.get(one.id, ())))
            if one.id in needs or one.id in ended
            else one
            for one in found
        ),
        nodes=tuple(books.nodes(at)) if short else (),
        quotas=tuple(books.quotas()) if short else (),
        heartbeats=tuple(
            Heartbeat(node.pk, node.name, NodeState(node.state), node.heartbeat_at, node.state_at)
            for node in nodes
            if node.state != NodeState.REMOVED
        ),
    )


def _needs(lacking: dict[int, tuple[ReplicaFacts, ...]], marked: list[int]) -> dict[int, Need]:
    """Of those that engines of ours serve."""
    rows = Deployment.objects.filter(pk__in=lacking).select_related(
        "version__model", "version__measure"
    )
    rows = rows.prefetch_related("version__peaks", _overrides())
    left = _left(marked)
    return {
        row.pk: placement.need(
            row.version,
            row,
            avoid=left.get(row.pk, frozenset()),
            expendable=is_spare(lacking[row.pk], row.replicas_min),
        )
        for row in rows
        if not row.version.is_external
    }


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


def _named(row: Deployment) -> list[str]:
    return row.placement.get("devices", [])


def _held(rows: Iterable[Deployment]) -> dict[int, set[str]]:
    """Replica → uuids of what it holds, of deployments that name devices; most name none."""
    found = defaultdict(set)
    if naming := [row.pk for row in rows if _named(row)]:
        held = Reservation.objects.filter(
            replica__deployment__in=naming, state=ReservationState.HELD
        )
        for replica_id, uuid in held.values_list("replica_id", "device__uuid"):
            found[replica_id].add(uuid)
    return found


def _policy(given: dict) -> Policy:
    if unknown := sorted(given.keys() - {field.name for field in fields(Policy)}):
        known = ", ".join(field.name for field in fields(Policy))
        raise ImproperlyConfigured(f"WEIR_RECONCILE names {unknown}: known are {known}")
    return Policy(**given)


def _deployment(row: Deployment, replicas: list[ReplicaFacts]) -> DeploymentFacts:
    return DeploymentFacts(
        id=row.pk,
        state=DeploymentState(row.state),
        version_id=row.version_id,
        wanted=row.replicas_wanted,
        is_external=row.version.is_external,
        note=row.note,
        hindrance=Hindrance(row.hindrance),
        launch_after=row.launch_after,
        retry_at=row.retry_at,
        generation=row.generation or 0,
        recycle=recycle.of(row.recycle),
        sleep=0 if row.version.is_external else row.scaling.get("sleep", 0),
        replicas=tuple(replicas),
    )
