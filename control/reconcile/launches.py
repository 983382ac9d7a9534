"""Launches as the rules see them, live and over: columns, for rows of thousands cost too much."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from control.models import Node, Replica
from control.reconcile.world import Ended, ReplicaFacts
from control.states import REPLICA_FINAL, DeploymentState, NodeState, ReplicaState

ENDED_READ = 16  # enough for every back-off to have reached its limit
_LIVE = (
    *("deployment_id", "pk", "generation", "state", "state_at", "version_id", "node_id"),
    *("deployment__version_id", "leaving", "progress_at", "ready_at", "calls"),
    *("host_memory_bytes", "host_memory_ready_bytes", "sleep_level"),
)
_ENDED = (
    *("deployment_id", "state", "ended_at", "state_at", "ready_at"),
    *("cause", "reason", "retry", "is_cured"),
)


class Live(NamedTuple):
    of: dict[int, list[ReplicaFacts]]  # deployment → its replicas, oldest first
    marked: list[int]  # replicas that are to be replaced elsewhere


class _Host(NamedTuple):
    """What a replica takes over from its node; of none without one."""

    name: str = ""
    state: NodeState | None = None
    departure: str = ""
    preemptible: bool = False
    leaves_by: datetime | None = None
    leaves_since: datetime | None = None


class _Row(NamedTuple):
    """The columns of _LIVE."""

    deployment_id: int
    id: int
    generation: int
    state: str
    state_at: datetime
    version_id: int | None
    node_id: int | None
    version_wanted: int
    leaving: str
    progress_at: datetime | None
    ready_at: datetime | None
    calls: int
    host_memory_bytes: int | None
    host_memory_ready_bytes: int | None
    sleep_level: int


def live(nodes: Iterable[Node]) -> Live:
    """`nodes`: all that there were a moment ago; only reconcile places on those that join."""
    found = Replica.objects.exclude(state__in=REPLICA_FINAL).order_by("generation")
    rows = [_Row(*row) for row in found.values_list(*_LIVE)]
    hosts: dict[int | None, _Host] = {node.pk: _host(node) for node in nodes}
    of = defaultdict(list)
    for row in rows:
        of[row.deployment_id].append(_live(row, hosts.get(row.node_id, _Host())))
    return Live(of, [row.id for row in rows if row.leaving])


def ended(deployment_ids: list[int]) -> dict[int, list[Ended]]:
    """The last launches of the version that is wanted now, newest first."""
    newest = Window(RowNumber(), partition_by=F("deployment"), order_by=F("generation").desc())
    rows = Replica.objects.filter(
        deployment__in=deployment_ids,
        state__in=REPLICA_FINAL,
        version=F("deployment__version"),
        deployment__state=DeploymentState.ACTIVE,
    ).annotate(is_cured=Q(override__isnull=False), place=newest)
    found = defaultdict(list)
    rows = rows.filter(place__lte=ENDED_READ).order_by("-generation")
    for deployment_id, state, ended_at, state_at, *rest in rows.values_list(*_ENDED):
        row = Ended(ReplicaState(state), ended_at or state_at, *rest)
        found[deployment_id].append(row)
    return found


def _live(row: _Row, host: _Host) -> ReplicaFacts:
    leaving = row.leaving or host.departure
    return ReplicaFacts(
        id=row.id,
        generation=row.generation,
        state=ReplicaState(row.state),
        state_at=row.state_at,
        is_current=row.version_id in (None, row.version_wanted) and not leaving,
        leaving=leaving,
        node=host.name,
        node_state=host.state,
        progress_at=row.progress_at,
        ready_at=row.ready_at,
        calls=row.calls,
        host_memory_bytes=row.host_memory_bytes,
        host_memory_ready_bytes=row.host_memory_ready_bytes,
        sleep_level=row.sleep_level,
        on_preemptible=host.preemptible,
        leaves_by=host.leaves_by,
        leaves_since=host.leaves_since,
    )


def _host(node: Node) -> _Host:
    return _Host(
        name=node.name,
        state=NodeState(node.state),
        departure=_departure(node),
        preemptible=node.is_preemptible,
        leaves_by=node.leaving_by,
        leaves_since=node.leaving_since,
    )


def _departure(node: Node) -> str:
    if not node.draining:
        return ""
    why = f" ({node.leaving_reason})" if node.leaving_reason else ""
    if node.leaving_by:
        return f"node {node} goes at {node.leaving_by:%H:%M:%S} UTC{why}"
    return f"node {node} is drained{why}"
