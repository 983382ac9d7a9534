"""Nodes and their devices, as pages, the API and commands read them."""

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from datetime import datetime

from control.models import Device, Node, Replica, Reservation
from control.placement import books
from control.states import REPLICA_FINAL, NodeState, ReservationState
from engines.spec import DeviceLink

ROWS_MAX = 1000
_SAME = (  # columns that facts hold as they are
    *("uuid", "index", "kind", "name", "memory_total_bytes", "memory_free_bytes"),
    *("foreign_bytes", "read_at", "error", "lost", "parent_uuid", "compute_capability"),
    *("utilisation_ratio", "power_watts", "energy_joules", "temperature_celsius"),
    *("ecc_corrected", "ecc_uncorrected", "xid_errors", "xid_last", "xid_at"),
    *("quarantined_at", "quarantine_reason"),
)
_SAME_OF_NODE = (
    *("name", "address", "state", "state_at", "cordoned", "note", "heartbeat_at", "joined_at"),
    *("pool", "labels", "driver", "draining", "leaving_by", "leaving_reason"),
    "memory_free_bytes",
)


@dataclass(frozen=True)
class DeviceFacts:
    """None: the driver did not say."""

    uuid: str
    index: int
    kind: str
    name: str
    memory_total_bytes: int
    memory_free_bytes: int | None
    foreign_bytes: int
    booked_bytes: int
    read_at: datetime | None
    error: str
    foreign_pids: tuple[int, ...] = ()
    lost: bool = False
    parent_uuid: str = ""  # of a MIG slice
    links: tuple[DeviceLink, ...] = ()
    compute_capability: str = ""
    utilisation_ratio: float | None = None
    power_watts: float | None = None
    energy_joules: float | None = None
    temperature_celsius: float | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    xid_errors: int = 0
    xid_last: int | None = None
    xid_at: datetime | None = None
    quarantined_at: datetime | None = None
    quarantine_reason: str = ""


@dataclass(frozen=True)
class NodeFacts:
    name: str
    address: str
    state: str
    state_at: datetime | None
    cordoned: bool
    note: str
    heartbeat_at: datetime | None
    joined_at: datetime
    devices: tuple[DeviceFacts, ...]
    live_replicas: int
    pool: str
    labels: dict[str, str]
    driver: str
    draining: bool
    leaving_by: datetime | None
    leaving_reason: str
    memory_total_bytes: int | None = None  # of the host; None: it has not said
    memory_free_bytes: int | None = None  # of a host with cards
    memory_booked_bytes: int = 0  # beside its cards

    @property
    def drained(self) -> bool:
        """Asked to be empty, and empty: the host may be taken away."""
        return self.draining and not self.live_replicas

    @property
    def standing(self) -> str:
        """What an operator has said of it, in one adjective; nothing if nothing."""
        if self.drained:
            return "drained"
        if self.leaving_by:
            return "leaving"
        if self.draining:
            return "draining"
        return "cordoned" if self.cordoned else ""


def nodes(
    *, name: str | None = None, removed: bool = False, first: int = 0, count: int = ROWS_MAX
) -> list[NodeFacts]:
    rows = Node.objects.order_by("name")
    if name is not None:
        rows = rows.filter(name=name)
    if not removed:
        rows = rows.exclude(state=NodeState.REMOVED)
    found = list(rows[first : first + min(count, ROWS_MAX)])
    ids = [node.pk for node in found]
    booked = Counter()
    held = Reservation.objects.filter(device__node__in=ids, state=ReservationState.HELD)
    for reservation in held:
        booked[reservation.device_id] += reservation.memory_bytes
    devices = defaultdict(list)
    for device in Device.objects.filter(node__in=ids).order_by("index", "uuid"):
        devices[device.node_id].append(_device(device, booked[device.pk]))
    live = Replica.objects.filter(node__in=ids).exclude(state__in=REPLICA_FINAL)
    replicas = Counter(live.values_list("node_id", flat=True))
    ram = books.ram_booked(ids)
    return [
        replace(
            _node(node, tuple(devices[node.pk]), replicas[node.pk]),
            memory_booked_bytes=ram[node.pk],
        )
        for node in found
    ]


def node(name: str) -> NodeFacts | None:
    return next(iter(nodes(name=name, count=1)), None)


def _node(row: Node, devices: tuple[DeviceFacts, ...], live_replicas: int) -> NodeFacts:
    values = {name: getattr(row, name) for name in _SAME_OF_NODE}
    values["memory_total_bytes"] = row.host.get("memory_bytes")
    return NodeFacts(devices=devices, live_replicas=live_replicas, **values)


def _device(row: Device, booked_bytes: int) -> DeviceFacts:
    return DeviceFacts(
        booked_bytes=booked_bytes,
        foreign_pids=tuple(row.foreign_pids),
        links=tuple(DeviceLink(link["uuid"], link["kind"]) for link in row.links),
        **{name: getattr(row, name) for name in _SAME},
    )
