"""What nodes say of themselves, and what they have on their disks."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from control.models import Device, Node, NodeRuntime, NodeWeights, Version
from control.states import NodeState
from engines.requirements import HostFacts
from engines.sources import key_of, told
from engines.spec import BadSpec

ROWS_MAX = 1000


@dataclass(frozen=True)
class RuntimeFacts:
    node: str
    engine: str
    version: str
    device_kind: str
    state: str
    percent: int
    detail: str
    size_bytes: int | None
    state_at: datetime


@dataclass(frozen=True)
class WeightsFacts:
    node: str
    key: str
    source: tuple[tuple[str, str], ...]
    state: str
    percent: int
    detail: str
    size_bytes: int | None
    held: bool
    used_at: datetime | None
    state_at: datetime


def host(node: Node) -> HostFacts:
    return hosts([node])[node.name]


def hosts(nodes: Iterable[Node]) -> dict[str, HostFacts]:
    nodes = list(nodes)
    cards = defaultdict(set)
    rows = Device.objects.filter(node__in=nodes, kind="gpu").exclude(compute_capability="")
    for node_id, capability in rows.values_list("node_id", "compute_capability"):
        cards[node_id].add(capability)
    return {
        node.name: HostFacts(
            machine=node.host.get("machine", ""),
            glibc=node.host.get("glibc", ""),
            python=node.host.get("python", ""),
            driver=node.driver,
            cuda=node.cuda,
            compute_capabilities=tuple(sorted(cards[node.pk])),
            read=bool(node.host),
        )
        for node in nodes
    }


def of_node(name: str) -> dict:
    """All of one node, for its page."""
    row = Node.objects.filter(name=name).first()
    said = {"cuda": row.cuda, **row.host} if row else {}
    return said | {"runtimes": runtimes(name), "weights": weights(name)}


def runtimes(node: str | None = None) -> list[RuntimeFacts]:
    rows = _of(NodeRuntime.objects, node).order_by("node__name", "engine", "version", "device_kind")
    return [
        RuntimeFacts(
            node=row.node.name,
            engine=row.engine,
            version=row.version,
            device_kind=row.device_kind,
            state=row.state,
            percent=row.percent,
            detail=row.detail,
            size_bytes=row.size_bytes,
            state_at=row.state_at,
        )
        for row in rows[:ROWS_MAX]
    ]


def weights(node: str | None = None, keys: Collection[str] | None = None) -> list[WeightsFacts]:
    """Of one node, or of all; of these sources, or of all."""
    rows = _of(NodeWeights.objects, node)
    rows = rows if keys is None else rows.filter(key__in=keys)
    return [
        WeightsFacts(
            node=row.node.name,
            key=row.key,
            source=told(row.source),
            state=row.state,
            percent=row.percent,
            detail=row.detail,
            size_bytes=row.size_bytes,
            held=row.held,
            used_at=row.used_at,
            state_at=row.state_at,
        )
        for row in rows.order_by("node__name", "key")[:ROWS_MAX]
    ]


def weights_of(model: str) -> dict[str, list[WeightsFacts]]:
    """Version → where its weights are or are on their way; of versions that have some to fetch."""
    keys = {}
    rows = Version.objects.filter(model__name=model, archived_at=None)
    for name, source, unsafe in rows.values_list("name", "source", "unsafe"):
        with suppress(BadSpec):
            if "path" not in (source or {}):
                keys[name] = key_of(source or {}, unsafe or ())
    there = weights(keys=set(keys.values())) if keys else []
    return {name: [one for one in there if one.key == key] for name, key in keys.items()}


def _of(rows, node: str | None):
    found = rows.select_related("node").exclude(node__state=NodeState.REMOVED)
    return found.filter(node__name=node) if node else found
