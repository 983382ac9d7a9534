"""Nodes, devices and the ledger of their memory, as placement sees them."""

from collections import defaultdict
from datetime import datetime, timedelta

from control.models import Device, Node, Replica, Reservation, Version
from control.placement import learned, memory
from control.placement.kv_cache import KvCost
from control.placement.memory import Demand
from control.placement.model import ModelFacts
from control.placement.rules import DeviceFacts, Need, NodeFacts, Range
from control.states import REPLICA_LIVE, NodeState, ReplicaState, ReservationState

READING_SECONDS_MAX = 15  # an older reading of a device says nothing about now
DEVICE_KINDS = ("gpu", "cpu")
_WITH_WEIGHTS = (
    ReplicaState.STARTING,
    ReplicaState.LOADING,
    ReplicaState.WARMING,
    ReplicaState.READY,
    ReplicaState.UNHEALTHY,
    ReplicaState.DRAINING,
    ReplicaState.STOPPED,
)


def nodes(at: datetime) -> list[NodeFacts]:
    """Every node that is not removed, silent ones too: their refusal has a reason."""
    booked = _booked()
    by_node = defaultdict(list)
    for row in Device.objects.order_by("index", "uuid"):
        by_node[row.node_id].append(_device(row, booked[row.pk], _device_blocked(row, at)))
    weights, deployments = defaultdict(set), defaultdict(set)
    launches = Replica.objects.exclude(node=None).filter(state__in=_WITH_WEIGHTS)
    for node_id, version_id in launches.values_list("node_id", "version_id").distinct():
        weights[node_id].add(version_id)
    living = Replica.objects.exclude(node=None).filter(state__in=REPLICA_LIVE)
    for node_id, deployment_id in living.values_list("node_id", "deployment_id").distinct():
        deployments[node_id].add(deployment_id)
    return [
        NodeFacts(
            id=row.pk,
            name=row.name,
            blocked=_node_blocked(row),
            devices=tuple(by_node[row.pk]),
            weights=frozenset(weights[row.pk]),
            deployments=frozenset(deployments[row.pk]),
        )
        for row in Node.objects.exclude(state=NodeState.REMOVED).order_by("name")
    ]


def need(version: Version, deployment_id: int, pin: str = "") -> Need:
    """By measure where one was taken; else by a guess that says so."""
    demand = memory.demand_of(version.arguments, version.memory)
    weights_bytes, cost = known_cost(version)
    return Need(
        version_id=version.pk,
        deployment_id=deployment_id,
        devices=demand.devices,
        sizes=sizes_by_kind(version, weights_bytes, cost, demand),
        pin=pin,
        stated=cost.detail,
    )


def known_cost(version: Version) -> tuple[int, KvCost]:
    measure = getattr(version, "measure", None)
    if measure is not None:
        return measure.weights_bytes, KvCost.from_dict(measure.kv_cost)
    return memory.unmeasured((version.source or {}).get("size_bytes"))


def sizes_by_kind(
    version: Version, weights_bytes: int, cost: KvCost, demand: Demand
) -> dict[str, memory.Sizes]:
    if version.engine.get("kind") == "stub":
        return dict.fromkeys(DEVICE_KINDS, memory.STUB)
    model, beside = known_model(version), learned.held_beside_kv(version)
    return {
        kind: memory.sizes(weights_bytes, cost, demand, kind, model, beside.get(kind))
        for kind in DEVICE_KINDS
    }


def known_model(version: Version) -> ModelFacts | None:
    """What its files said; None until some node has them."""
    measure = getattr(version, "measure", None)
    return ModelFacts.from_dict(measure.facts) if measure and measure.facts else None


def devices(device_ids: list[int]) -> tuple[DeviceFacts, ...]:
    """As the books have them, however old their reading."""
    booked = _booked()
    rows = Device.objects.filter(pk__in=device_ids).order_by("pk")
    return tuple(_device(row, booked[row.pk]) for row in rows)


def _booked() -> dict[int, tuple[Range, ...]]:
    ranges: dict[int, tuple[Range, ...]] = defaultdict(tuple)
    for row in Reservation.objects.filter(state=ReservationState.HELD):
        ranges[row.device_id] += ((row.memory.lower, row.memory.upper),)
    return ranges


def _device(row: Device, booked: tuple[Range, ...], blocked: str = "") -> DeviceFacts:
    return DeviceFacts(
        id=row.pk,
        uuid=row.uuid,
        name=row.name,
        kind=row.kind,
        memory_total_bytes=row.memory_total_bytes,
        foreign_bytes=row.foreign_bytes,
        booked=booked,
        blocked=blocked,
    )


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
