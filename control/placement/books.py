"""Nodes, devices and what holds their memory, read in a handful of queries."""

from collections import defaultdict
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Exists, OuterRef, Q

from control.models import Device, Node, NodeWeights, Project, Replica, Reservation, Version
from control.placement import overrides, room
from control.placement.world import DeviceFacts, Holder, NodeFacts, ProjectQuota, Range
from control.states import (
    REPLICA_FINAL,
    REPLICA_LIVE,
    DeploymentState,
    FilesState,
    NodeState,
    ReplicaState,
    ReservationState,
)
from engines.sources import key_of
from engines.spec import BadSpec

READING_SECONDS_MAX = 15  # an older reading of a device says nothing about now
NVLINK = "nvlink"
STUCK_SECONDS = 60  # after the end of a launch, for its processes to go
STUCK_MAX = 1000  # reservations that are told
KEY_CHARACTERS_MAX = 200  # of the name of a folder of weights, as nodes tell it
_ENDS = {*REPLICA_FINAL, ReplicaState.DRAINING}
_WITH_WEIGHTS = (
    ReplicaState.STARTING,
    ReplicaState.LOADING,
    ReplicaState.WARMING,
    ReplicaState.READY,
    ReplicaState.UNHEALTHY,
    ReplicaState.DRAINING,
    ReplicaState.ASLEEP,
    ReplicaState.WAKING,
)
_STARTS = frozenset(
    {
        ReplicaState.PLACED,
        ReplicaState.PREPARING,
        ReplicaState.STARTING,
        ReplicaState.LOADING,
        ReplicaState.WARMING,
    }
)
_HOLDER = (
    *("device_id", "memory", "replica_id", "replica__generation", "replica__state"),
    *("replica__deployment_id", "replica__deployment__name", "replica__deployment__priority"),
    *("replica__deployment__project_id", "replica__version__model_id"),
    *("replica__host_memory_bytes", "replica__host_booked_bytes"),
)


def nodes(at: datetime) -> list[NodeFacts]:
    """Every node that is not removed, silent ones too: their refusal has a reason."""
    held = _held(Reservation.objects.all())
    by_node, left = defaultdict(list), {row.device_id: left_on(row) for row in stuck(at)}
    for row in Device.objects.order_by("index", "uuid"):
        blocked = _device_blocked(row, at) or left.get(row.pk, "")
        by_node[row.node_id].append(_device(row, held[row.pk], blocked))
    weights, deployments = _weights(), defaultdict(set)
    living = Replica.objects.exclude(node=None).filter(state__in=REPLICA_LIVE)
    for node_id, deployment_id in living.values_list("node_id", "deployment_id").distinct():
        deployments[node_id].add(deployment_id)
    full, ram = overrides.full_hosts(), _ram_holders()
    return [
        NodeFacts(
            id=row.pk,
            name=row.name,
            blocked=_node_blocked(row) or full.get(row.pk, ""),
            devices=tuple(by_node[row.pk]),
            weights=frozenset(weights[row.pk]),
            deployments=frozenset(deployments[row.pk]),
            pool=row.pool,
            preemptible=row.is_preemptible,
            **_ram(row, ram[row.pk], at),
        )
        for row in Node.objects.exclude(state=NodeState.REMOVED).order_by("name")
    ]


class _RamHolder(NamedTuple):
    """A launch that has RAM of a host set aside, until it has given its cards back."""

    node_id: int
    booked_bytes: int
    state: str
    ready_at: datetime | None
    taken_bytes: int | None


def ram_of(node: Node, at: datetime) -> dict:
    """What NodeFacts tell of a host's RAM."""
    return _ram(node, _ram_holders(node=node)[node.pk], at)


def ram_booked(node_ids: list[int]) -> dict[int, int]:
    """Node → what of its RAM is set aside beside its cards."""
    found = _ram_holders(node__in=node_ids)
    return {id_: sum(one.booked_bytes for one in found[id_]) for id_ in node_ids}


def _ram(node: Node, holders: list[_RamHolder], at: datetime) -> dict:
    read_at, known = node.memory_read_at, {"ram_bytes": node.host.get("memory_bytes", 0)}
    known["ram_booked_bytes"] = sum(one.booked_bytes for one in holders)
    if read_at is None or at - read_at > timedelta(seconds=READING_SECONDS_MAX):
        return known  # an old reading says nothing about now
    coming = sum(
        max(0, one.booked_bytes - (one.taken_bytes or 0))
        for one in holders
        # Of one that has become ready since, the reading may not show all yet.
        if one.state in _STARTS or one.ready_at and one.ready_at > read_at
    )
    return known | {"ram_available_bytes": node.memory_free_bytes, "ram_coming_bytes": coming}


def _ram_holders(**rows) -> dict[int, list[_RamHolder]]:
    found: dict[int, list[_RamHolder]] = defaultdict(list)
    held = Exists(Reservation.objects.filter(replica=OuterRef("pk"), state=ReservationState.HELD))
    launches = Replica.objects.filter(held, host_booked_bytes__gt=0, **rows)
    columns = ("node_id", "host_booked_bytes", "state", "ready_at", "host_memory_bytes")
    for row in launches.values_list(*columns):
        found[row[0]].append(_RamHolder(*row))
    return found


def _weights() -> dict[int, set[int]]:
    """Node → versions whose files are there: fetched ahead, kept of earlier launches, or in use."""
    found: dict[int, set[int]] = defaultdict(set)
    launches = Replica.objects.exclude(node=None).filter(state__in=_WITH_WEIGHTS)
    for node_id, version_id in launches.values_list("node_id", "version_id").distinct():
        found[node_id].add(version_id)
    cached = list(NodeWeights.objects.filter(state=FilesState.DONE).values_list("node_id", "key"))
    versions = _versions_by_key() if cached else {}
    for node_id, key in cached:
        found[node_id].update(versions.get(key, ()))
    return found


def _versions_by_key() -> dict[str, list[int]]:
    """Of versions that may be launched; what has no files to fetch has no key."""
    found: dict[str, list[int]] = defaultdict(list)
    wanted = Version.objects.filter(deployments__state=DeploymentState.ACTIVE).distinct()
    for version_id, source, unsafe in wanted.values_list("pk", "source", "unsafe"):
        with suppress(BadSpec):
            found[key_of(source or {}, unsafe or ())[:KEY_CHARACTERS_MAX]].append(version_id)
    return found


def stuck(at: datetime) -> list[Reservation]:
    """Cards on which processes will not die: the driver is in trouble, and the rest is no offer."""
    rows = Reservation.objects.filter(
        state=ReservationState.HELD,
        device__kind="gpu",
        replica__state__in=REPLICA_FINAL,
        replica__ended_at__lt=at - timedelta(seconds=STUCK_SECONDS),
        device__node__state=NodeState.READY,
    ).select_related("replica__deployment", "device__node")
    return list(rows.order_by("replica", "pk")[:STUCK_MAX])


def left_on(row: Reservation) -> str:
    return f"holds what {row.replica} left: {row.replica.reason}"


def quotas() -> list[ProjectQuota]:
    """Of projects that have one."""
    rows = Project.objects.filter(Q(devices_guaranteed__gt=0) | Q(devices_maximum__isnull=False))
    return [
        ProjectQuota(row.pk, str(row), row.devices_guaranteed, row.devices_maximum)
        for row in rows.filter(archived_at=None).select_related("tenant")
    ]


def devices(device_ids: list[int]) -> tuple[DeviceFacts, ...]:
    """As the books have them, however old their reading."""
    held = _held(Reservation.objects.filter(device__in=device_ids))
    rows = Device.objects.filter(pk__in=device_ids).order_by("pk")
    return tuple(_device(row, held[row.pk]) for row in rows)


def _held(rows) -> dict[int, dict[int, Holder]]:
    """Device → replica → what it holds there."""
    found: dict[int, dict[int, Holder]] = defaultdict(dict)
    for row in rows.filter(state=ReservationState.HELD).values_list(*_HOLDER):
        device_id, memory, replica_id = row[:3]
        before = found[device_id].get(replica_id)
        ranges = (before.ranges if before else ()) + ((memory.lower, memory.upper),)
        found[device_id][replica_id] = _holder(row, ranges)
    return found


def _holder(row: tuple, ranges: tuple[Range, ...]) -> Holder:
    generation, state, deployment_id, name, priority, project_id, model_id, *ram = row[3:]
    return Holder(
        replica_id=row[2],
        deployment_id=deployment_id,
        name=f"{name}#{generation}",
        model_id=model_id or 0,
        priority=priority,
        project_id=project_id,
        ranges=ranges,
        ends=state in _ENDS,
        asleep=state == ReplicaState.ASLEEP,
        starts=state in _STARTS,
        taken_bytes=ram[0],
        host_bytes=ram[1],
    )


def _device(row: Device, held: dict[int, Holder], blocked: str = "") -> DeviceFacts:
    holders = tuple(held.values())
    return DeviceFacts(
        id=row.pk,
        uuid=row.uuid,
        name=row.name,
        kind=row.kind,
        memory_total_bytes=row.memory_total_bytes,
        foreign_bytes=row.foreign_bytes,
        booked=tuple(span for holder in holders for span in holder.ranges),
        blocked=blocked,
        memory_free_bytes=row.memory_free_bytes,
        coming_bytes=room.coming_bytes(holders) if row.kind == "cpu" else 0,
        holders=holders,
        links=_linked(row.links),
        is_slice=bool(row.parent_uuid),
        compute_capability=row.compute_capability,
    )


def _linked(links: list[dict]) -> frozenset[str]:
    return frozenset(link["uuid"] for link in links if link.get("kind") == NVLINK)


def _device_blocked(row: Device, at: datetime) -> str:
    if row.quarantined_at:
        return f"is quarantined: {row.quarantine_reason}"
    if row.error:
        return f"cannot be read: {row.error}"
    if row.read_at is None or at - row.read_at > timedelta(seconds=READING_SECONDS_MAX):
        return f"was not read in the last {READING_SECONDS_MAX} s"
    return ""


def _node_blocked(row: Node) -> str:
    if row.leaving_by:
        return f"leaves by {row.leaving_by:%H:%M:%S} UTC: {row.leaving_reason}"
    if row.draining:
        return f"is being drained: {row.leaving_reason}"
    if row.cordoned:
        return "is cordoned: it takes no new replica"
    if row.state != NodeState.READY:
        return f"is {row.state}{row.note and f': {row.note}'}"
    return ""
