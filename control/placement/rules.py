"""Which devices a launch gets, and why not the others."""

from collections.abc import Iterator

from control.placement import filters, groups, quotas
from control.placement import room as rooms
from control.placement.advice import advice
from control.placement.fleet import Fleet
from control.placement.groups import Group
from control.placement.room import gib
from control.placement.world import DeviceFacts, Need, NodeFacts, Placed, Room, Share, Unplaced

LOOK_AHEAD = 64  # nodes that are looked at for a better one, once there is one that will do
REASONS_MAX = 64  # of one refusal; the rest is counted

Rank = tuple[bool, bool, bool]  # smaller is better
BEST: Rank = (False, False, False)
COLD: Rank = (False, False, True)  # the best where its weights are not
Found = tuple[Rank, NodeFacts, Group]


def place(need: Need, fleet: Fleet) -> Placed | Unplaced:
    """Filter with reasons, score, take the best."""
    if refused := quotas.over_maximum(need, fleet):
        return refused
    short = None
    for room in filters.rooms_for(need):
        if found := _search(need, room, fleet):
            _, node, devices = found
            short = quotas.beyond_guarantees(need, devices, fleet)
            if short is None:
                return placed(need, room, node, devices)
    return short or why_nowhere(need, fleet)


def on_these(need: Need, node: NodeFacts) -> Placed | Unplaced:
    """On the devices of a launch that is there already, all of them."""
    if short := filters.short_of_ram(need, node):
        return Unplaced({node.name: short})
    reasons, room = {}, filters.room_of(need, node.devices[0])
    for device in node.devices:
        if why := filters.why_not(need, room, device):
            reasons[f"{node.name}/{device.name}"] = filters.told(why, need, room, device)
    if reasons:
        return Unplaced(reasons)
    return placed(need, room, node, node.devices)


def placed(need: Need, room: Room, node: NodeFacts, devices: Group) -> Placed:
    kv = rooms.kv_bytes(need, room, list(devices))
    each = [rooms.share_bytes(need, room, device, kv) for device in devices]
    shares = tuple(
        Share(device.id, rooms.take(device, count) or ())
        for device, count in zip(devices, each, strict=True)
    )
    names = ", ".join(device.name for device in devices)
    how = {Room.OWN: "of its own", Room.SHARED: "shared"}.get(room)
    booked = f"{gib(each[0])} of {names} on {node.name}{how and f', {how}' or ''}"
    if len(devices) > 1 and room is not Room.RAM and not groups.are_linked(devices):
        booked += ", without NVLink between them"
    beside = rooms.host_bytes(need, devices)
    if beside and node.ram_bytes:
        booked += f", and {gib(beside)} of its RAM"
    return Placed(node.id, node.name, shares, kv, booked, room, beside)


def fitting(need: Need, room: Room, node: NodeFacts) -> Group | None:
    """The devices of a node that it would get."""
    if filters.why_not_node(need, node):
        return None
    able = [device for device in node.devices if not filters.why_not(need, room, device)]
    return groups.choose(able, need.devices, need.policy)


def why_nowhere(need: Need, fleet: Fleet) -> Unplaced:
    """Device by device, of the first nodes; the rest is counted."""
    reasons: dict[str, str] = {}
    more = 0
    if need.pin and fleet.named(need.pin) is None:
        reasons[need.pin] = "is no node that has joined: the deployment is pinned there"
    for node in fleet.nodes:
        if len(reasons) >= REASONS_MAX:
            more += 1
            continue
        reasons |= dict(_why_not_on(need, node))
    return Unplaced(reasons, advice(need, fleet), more)


def _why_not_on(need: Need, node: NodeFacts) -> Iterator[tuple[str, str]]:
    if why := filters.why_not_node(need, node):
        yield node.name, why
        return
    fit = 0
    for device in node.devices:
        room = filters.room_of(need, device)
        if refused := filters.why_not(need, room, device):
            yield f"{node.name}/{device.name}", filters.told(refused, need, room, device)
        else:
            fit += 1
    if need.devices > 1:
        yield node.name, f"has {fit} of {need.devices} devices with enough memory"


def _search(need: Need, room: Room, fleet: Fleet) -> Found | None:
    """The first of the best rank, in the order of the policy: where its weights lie, then all."""
    if need.pin or need.uuids:
        return _best(need, room, _named(need, fleet), BEST, fleet)
    least = _least(need, room)
    warm = _best(need, room, fleet.warm(need, room, least), BEST, fleet)
    if warm and warm[0] == BEST:
        return warm
    every = _best(need, room, fleet.walk(need, room, least), COLD, fleet)
    return min(filter(None, (warm, every)), key=lambda found: found[0], default=None)


def _best(
    need: Need, room: Room, nodes: Iterator[NodeFacts], enough: Rank, fleet: Fleet
) -> Found | None:
    best, looked = None, 0
    for node in nodes:
        twin = need.deployment_id in node.deployments
        if best and (twin, False, enough[2]) >= best[0]:
            continue  # it cannot be better
        looked += bool(best)
        if looked > LOOK_AHEAD:
            break
        if devices := fitting(need, room, node):
            rank = _rank(need, node, devices, fleet)
            if best is None or rank < best[0]:
                best = (rank, node, devices)
            if rank <= enough:
                break
    return best


def _named(need: Need, fleet: Fleet) -> Iterator[NodeFacts]:
    if need.pin:
        return iter(filter(None, [fleet.named(need.pin)]))
    wanted = set(need.uuids)
    return (node for node in fleet.nodes if any(it.uuid in wanted for it in node.devices))


def _least(need: Need, room: Room) -> int:
    """What a gap must have at least, on the most welcoming device."""
    kind = "cpu" if room is Room.RAM else "gpu"
    factor = rooms.SHARED_FACTOR if room is Room.SHARED else 1
    return int(need.sizes[kind].bytes_min * factor)


def _rank(need: Need, node: NodeFacts, devices: tuple[DeviceFacts, ...], fleet: Fleet) -> Rank:
    """Away from its twins, linked, with the weights on disk: in this order.

    A twin on the same node is lost with it; weights are fetched once.
    """
    wants_links = 1 < need.devices <= fleet.linked_most
    return (
        need.deployment_id in node.deployments,
        wants_links and not groups.are_linked(devices),
        need.version_id not in node.weights,
    )
