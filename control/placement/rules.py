"""Which devices a launch gets, and why not the others."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from control.placement.memory import GIB, Sizes

Range = tuple[int, int]  # bytes [lower, upper) of a device's memory

RESERVE_RATIO = 0.02
RESERVE_BYTES_MAX = GIB // 2


@dataclass(frozen=True)
class DeviceFacts:
    id: int
    uuid: str
    name: str
    kind: str  # "gpu" | "cpu"
    memory_total_bytes: int
    foreign_bytes: int = 0  # held by processes that are not ours
    booked: tuple[Range, ...] = ()
    blocked: str = ""  # why nothing is placed on it: its reading failed or is old


@dataclass(frozen=True)
class NodeFacts:
    id: int
    name: str
    blocked: str = ""  # why nothing is placed on it: cordoned, silent, removed
    devices: tuple[DeviceFacts, ...] = ()
    weights: frozenset[int] = frozenset()  # versions whose files are on its disk
    deployments: frozenset[int] = frozenset()  # that have a replica on it


@dataclass(frozen=True)
class Need:
    """What one launch asks for; sizes by kind of device, for an engine may run on either."""

    version_id: int
    deployment_id: int
    devices: int
    sizes: dict[str, Sizes]
    pin: str = ""  # node name
    stated: str = ""  # what the sizes rest on, if not on a measure


@dataclass(frozen=True)
class Share:
    """What a launch holds of one device."""

    device_id: int
    ranges: tuple[Range, ...]


@dataclass(frozen=True)
class Placed:
    node_id: int
    node: str
    shares: tuple[Share, ...]
    kv_bytes: int  # on each device
    reason: str


@dataclass(frozen=True)
class Unplaced:
    """Node, or node/device, and why not."""

    reasons: dict[str, str]

    def __str__(self) -> str:
        if not self.reasons:
            return "no node has joined yet: start one with `weir node`"
        return "; ".join(f"{where} {why}" for where, why in sorted(self.reasons.items()))


def place(need: Need, nodes: Iterable[NodeFacts]) -> Placed | Unplaced:
    """Filter with reasons, score, take the best."""
    reasons: dict[str, str] = {}
    able = []
    for node in nodes:
        if why := _why_not(need, node):
            reasons[node.name] = why
            continue
        refused = {device.id: _refusal(need, device) for device in node.devices}
        fitting = [device for device in node.devices if not refused[device.id]]
        # All devices of one launch are of one kind.
        by_kind = [[d for d in fitting if d.kind == kind] for kind in ("gpu", "cpu")]
        enough = next((devices for devices in by_kind if len(devices) >= need.devices), None)
        if enough:
            able.append((node, enough))
            continue
        reasons |= {f"{node.name}/{d.name}": refused[d.id] for d in node.devices if refused[d.id]}
        if need.devices > 1:
            reasons[node.name] = f"has {len(fitting)} of {need.devices} devices with enough memory"
    if not able:
        return Unplaced(reasons)
    node, devices = max(able, key=lambda pair: _score(need, *pair))
    return _placed(need, node, _tightest(devices)[: need.devices])


def reserve(nodes: Iterable[NodeFacts], placed: Placed, need: Need) -> list[NodeFacts]:
    """The same nodes with what was just given away booked: one plan never gives it twice."""
    given = {share.device_id: share.ranges for share in placed.shares}
    return [
        replace(
            node,
            devices=tuple(
                replace(device, booked=device.booked + given.get(device.id, ()))
                for device in node.devices
            ),
            deployments=node.deployments | {need.deployment_id},
        )
        if node.id == placed.node_id
        else node
        for node in nodes
    ]


def free_bytes(device: DeviceFacts) -> int:
    """What can still be booked: all that is neither ours by ledger nor used by others."""
    booked = sum(upper - lower for lower, upper in device.booked)
    total = device.memory_total_bytes
    kept = min(int(total * RESERVE_RATIO), RESERVE_BYTES_MAX)
    return max(0, total - booked - device.foreign_bytes - kept)


def take(device: DeviceFacts, count: int) -> tuple[Range, ...] | None:
    """Ranges of that many bytes from the gaps between bookings; None if they hold less."""
    ranges, missing = [], count
    for lower, upper in free_ranges(device):
        taken = min(missing, upper - lower)
        ranges.append((lower, lower + taken))
        missing -= taken
        if not missing:
            return tuple(ranges)
    return None


def free_ranges(device: DeviceFacts) -> list[Range]:
    gaps, at = [], 0
    for lower, upper in sorted(device.booked):
        if lower > at:
            gaps.append((at, lower))
        at = max(at, upper)
    if at < device.memory_total_bytes:
        gaps.append((at, device.memory_total_bytes))
    return gaps


def gib(count: int) -> str:
    return f"{count / GIB:.1f} GiB"


def _why_not(need: Need, node: NodeFacts) -> str:
    if need.pin and node.name != need.pin:
        return f"is not {need.pin}, where the deployment is pinned"
    if node.blocked:
        return node.blocked
    return "" if node.devices else "has reported no device yet"


def _refusal(need: Need, device: DeviceFacts) -> str:
    size = need.sizes.get(device.kind)
    if size is None:
        return f"is a {device.kind}, on which this engine does not run"
    if device.blocked:
        return device.blocked
    free = free_bytes(device)
    if free >= size.bytes_min:
        return ""
    booked = sum(upper - lower for lower, upper in device.booked)
    return (
        f"has {gib(free)} free of {gib(device.memory_total_bytes)} "
        f"({gib(booked)} booked, {gib(device.foreign_bytes)} used by others); "
        f"{gib(size.bytes_min)} are needed{need.stated and f' ({need.stated})'}"
    )


def _score(need: Need, node: NodeFacts, devices: list[DeviceFacts]) -> tuple:
    """Weights on disk first, then away from its twin, then the tightest fit: gaps stay whole."""
    spare = sum(free_bytes(device) for device in _tightest(devices)[: need.devices])
    return (
        need.version_id in node.weights,
        need.deployment_id not in node.deployments,
        -spare,
        node.name,
    )


def _tightest(devices: list[DeviceFacts]) -> list[DeviceFacts]:
    return sorted(devices, key=lambda device: (free_bytes(device), device.uuid))


def _placed(need: Need, node: NodeFacts, devices: list[DeviceFacts]) -> Placed:
    size = need.sizes[devices[0].kind]
    room = min(free_bytes(device) for device in devices) - size.fixed_bytes
    kv_bytes = min(size.kv_bytes, room)
    each = size.fixed_bytes + kv_bytes
    shares = tuple(Share(device.id, take(device, each) or ()) for device in devices)
    names = ", ".join(device.name for device in devices)
    booked = f"{gib(each)} of {names} on {node.name}"
    return Placed(node.id, node.name, shares, kv_bytes, booked)
