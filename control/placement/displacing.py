"""What gives way to a launch that finds no place: sleepers to any, batch replicas to interactive
ones; few. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from control.placement import filters
from control.placement.fleet import Fleet
from control.placement.rules import fitting, place
from control.placement.world import DeviceFacts, Holder, Need, NodeFacts, Placed, Room, Unplaced
from control.states import Priority

NODES_MAX = 256  # that are looked at for what could give way


@dataclass(frozen=True)
class Waits:
    """What drains already will do; nobody else may take the room."""

    node: str
    device_ids: tuple[int, ...]
    until: tuple[str, ...]  # replicas that end

    def __str__(self) -> str:
        return f"waits on {self.node} until {', '.join(self.until)} has ended"


@dataclass(frozen=True)
class Displaces:
    """Those that give way, the youngest first: they are drained, and then it is placed."""

    node: str
    device_ids: tuple[int, ...]
    replicas: tuple[Holder, ...]

    def __str__(self) -> str:
        names = ", ".join(holder.name for holder in self.replicas)
        kind = "of priority batch" if not all(it.asleep for it in self.replicas) else "asleep,"
        return f"on {self.node}, where {names} {kind} would give way"


@dataclass(frozen=True)
class NoneGivesWay:
    why: str


Way = Waits | Displaces | NoneGivesWay


def seek(need: Need, fleet: Fleet) -> Placed | Unplaced | Waits | Displaces:
    """A place, or what gives way for it: what they leave is kept from those less urgent."""
    found = place(need, fleet)
    if isinstance(found, Placed):
        return found
    match make_way(need, fleet):
        case NoneGivesWay():
            return found
        case Waits() | Displaces() as way:
            fleet.keep(way.device_ids, f"is kept for {need.name}, which is more urgent")
            return way


def make_way(need: Need, fleet: Fleet) -> Way:
    """For a need that is not placed now."""
    if need.priority != Priority.INTERACTIVE:
        return _past_sleepers(need, fleet)
    nodes = [node for node in fleet.nodes if _somebody(node, _may_go)][:NODES_MAX]
    for node in nodes:
        if found := _without(need, node, _ends):
            there = found[1] if any(map(_has_ends, found[1])) else node.devices
            ending = [it for device in there for it in device.holders if it.ends]
            return Waits(node.name, _ids(found[1]), _names(ending))
    ways = [way for node in nodes if (way := _displaced(need, node, _may_go))]
    # A way that has begun needs the fewest more: the choice holds from tick to tick.
    best = min(ways, key=lambda way: (len(way.replicas), way.node), default=None)
    return best or NoneGivesWay("no batch replica stands where it would fit")


def _past_sleepers(need: Need, fleet: Fleet) -> Displaces | NoneGivesWay:
    """What ends already may do: then nobody else is stopped."""
    if not fleet.sleeps:
        return NoneGivesWay("only interactive deployments displace others")
    nodes = [node for node in fleet.nodes if _somebody(node, _is_idle)][:NODES_MAX]
    if not any(_without(need, node, _ends) for node in nodes):
        ways = [way for node in nodes if (way := _displaced(need, node, _is_idle))]
        if best := min(ways, key=lambda way: (len(way.replicas), way.node), default=None):
            return best
    return NoneGivesWay("no sleeper stands where it would fit")


def _displaced(need: Need, node: NodeFacts, may_go: Callable[[Holder], bool]) -> Displaces | None:
    found = _without(need, node, may_go)
    if found is None:
        return None
    room, devices = found
    ids = _ids(devices)
    goes: dict[int, Holder] = {}
    for holder in _in_order(devices, node, may_go):
        goes[holder.replica_id] = holder
        cleared = _cleared_node(node, lambda who: who.ends or who.replica_id in goes)
        wanted = (device for device in cleared.devices if device.id in ids)
        short = filters.short_of_ram(need, cleared)
        if not short and not any(filters.why_not(need, room, device) for device in wanted):
            break
    return Displaces(node.name, ids, tuple(goes.values()))


def _in_order(
    devices: Iterable[DeviceFacts], node: NodeFacts, may_go: Callable[[Holder], bool]
) -> list[Holder]:
    """A sleeper serves nobody; then the youngest has done the least. Those on other devices of
    the host come last: they hold its RAM alone."""
    found: dict[int, Holder] = {}
    for part in (devices, node.devices):
        there = {it.replica_id: it for device in part for it in device.holders}
        able = [it for it in there.values() if may_go(it) and not it.ends]
        for holder in sorted(able, key=lambda it: (it.asleep, it.replica_id), reverse=True):
            found.setdefault(holder.replica_id, holder)
    return list(found.values())


def _without(
    need: Need, node: NodeFacts, goes: Callable[[Holder], bool]
) -> tuple[Room, tuple[DeviceFacts, ...]] | None:
    """The devices it would get if these were gone, as they are now."""
    if not _somebody(node, goes):
        return None
    cleared = _cleared_node(node, goes)
    now = {device.id: device for device in node.devices}
    only_ram = replace(cleared, devices=node.devices)  # devices that are free as they are do first
    for room in filters.rooms_for(need):
        if devices := fitting(need, room, only_ram) or fitting(need, room, cleared):
            return room, tuple(now[device.id] for device in devices)
    return None


def _cleared_node(node: NodeFacts, goes: Callable[[Holder], bool]) -> NodeFacts:
    """What the kernel has free is unknown too until those with RAM beside their cards are gone."""
    gone = {it.replica_id: it.host_bytes for d in node.devices for it in d.holders if goes(it)}
    back = sum(gone.values())
    return replace(
        node,
        devices=tuple(_cleared(device, goes) for device in node.devices),
        ram_booked_bytes=node.ram_booked_bytes - back,
        ram_available_bytes=None if back else node.ram_available_bytes,
    )


def _has_ends(device: DeviceFacts) -> bool:
    return any(holder.ends for holder in device.holders)


def _somebody(node: NodeFacts, goes: Callable[[Holder], bool]) -> bool:
    return any(goes(holder) for device in node.devices for holder in device.holders)


def _cleared(device: DeviceFacts, goes: Callable[[Holder], bool]) -> DeviceFacts:
    """What the driver calls free is unknown until they are gone: the books will do."""
    gone = {it for holder in device.holders if goes(holder) for it in holder.ranges}
    if not gone:
        return device
    left = tuple(holder for holder in device.holders if not goes(holder))
    booked = tuple(it for it in device.booked if it not in gone)
    return replace(device, booked=booked, holders=left, memory_free_bytes=None)


def _ends(holder: Holder) -> bool:
    return holder.ends


def _is_idle(holder: Holder) -> bool:
    return holder.ends or holder.asleep


def _may_go(holder: Holder) -> bool:
    return _is_idle(holder) or holder.priority == Priority.BATCH


def _ids(devices: Iterable[DeviceFacts]) -> tuple[int, ...]:
    return tuple(device.id for device in devices)


def _names(holders: Iterable[Holder]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(holder.name for holder in holders))
