"""Who gives way to an interactive launch that finds no place: batch replicas, few. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from control.placement import filters
from control.placement.fleet import Fleet
from control.placement.rules import fitting, place
from control.placement.world import DeviceFacts, Holder, Need, NodeFacts, Placed, Room, Unplaced
from control.states import Priority

NODES_MAX = 256  # that are looked at for who could give way


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
    """Those who give way, the youngest first: they are drained, and then it is placed."""

    node: str
    device_ids: tuple[int, ...]
    replicas: tuple[Holder, ...]

    def __str__(self) -> str:
        names = ", ".join(holder.name for holder in self.replicas)
        return f"on {self.node}, where {names} of priority batch would give way"


@dataclass(frozen=True)
class NobodyGivesWay:
    why: str


Way = Waits | Displaces | NobodyGivesWay


def seek(need: Need, fleet: Fleet) -> Placed | Unplaced | Waits | Displaces:
    """A place, or who gives way for it: what they leave is kept from those less urgent."""
    found = place(need, fleet)
    if isinstance(found, Placed):
        return found
    match make_way(need, fleet):
        case NobodyGivesWay():
            return found
        case Waits() | Displaces() as way:
            fleet.keep(way.device_ids, f"is kept for {need.name}, which is more urgent")
            return way


def make_way(need: Need, fleet: Fleet) -> Way:
    """For a need that is not placed now."""
    if need.priority != Priority.INTERACTIVE:
        return NobodyGivesWay("only interactive deployments displace others")
    nodes = [node for node in fleet.nodes if _somebody(node, _may_go)][:NODES_MAX]
    for node in nodes:
        if found := _without(need, node, _ends):
            ending = [it for device in found[1] for it in device.holders if it.ends]
            return Waits(node.name, _ids(found[1]), _names(ending))
    ways = [way for node in nodes if (way := _displaced(need, node))]
    # A way that has begun needs the fewest more: the choice holds from tick to tick.
    best = min(ways, key=lambda way: (len(way.replicas), way.node), default=None)
    return best or NobodyGivesWay("no batch replica stands where it would fit")


def _displaced(need: Need, node: NodeFacts) -> Displaces | None:
    found = _without(need, node, _may_go)
    if found is None:
        return None
    room, devices = found
    ids = _ids(devices)
    victims = {
        holder.replica_id: holder
        for device in devices
        for holder in device.holders
        if _may_go(holder) and not holder.ends
    }
    goes: dict[int, Holder] = {}
    for replica_id in sorted(victims, reverse=True):  # the youngest has done the least
        goes[replica_id] = victims[replica_id]
        cleared = [_cleared(it, lambda who: who.ends or who.replica_id in goes) for it in devices]
        if not any(filters.why_not(need, room, device) for device in cleared):
            break
    return Displaces(node.name, ids, tuple(goes.values()))


def _without(
    need: Need, node: NodeFacts, goes: Callable[[Holder], bool]
) -> tuple[Room, tuple[DeviceFacts, ...]] | None:
    """The devices it would get if these were gone, as they are now."""
    if not _somebody(node, goes):
        return None
    cleared = replace(node, devices=tuple(_cleared(device, goes) for device in node.devices))
    now = {device.id: device for device in node.devices}
    for room in filters.rooms_for(need):
        if devices := fitting(need, room, cleared):
            return room, tuple(now[device.id] for device in devices)
    return None


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


def _may_go(holder: Holder) -> bool:
    return holder.ends or holder.priority == Priority.BATCH


def _ids(devices: Iterable[DeviceFacts]) -> tuple[int, ...]:
    return tuple(device.id for device in devices)


def _names(holders: Iterable[Holder]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(holder.name for holder in holders))
