"""Why a launch cannot go to a node or a device: a closed set, told in words. Pure."""

from enum import StrEnum

from control.placement import room as rooms
from control.placement.room import gib
from control.placement.wanted import AntiAffinity
from control.placement.world import DeviceFacts, Need, NodeFacts, Room


class Why(StrEnum):
    KIND = "kind"
    CAPABILITY = "capability"
    BLOCKED = "blocked"
    NOT_NAMED = "not named"
    LEFT = "left"
    SLICE = "slice"
    TAKEN = "taken"
    PRIORITY = "priority"
    MEMORY = "memory"


_WORDS = {
    Why.NOT_NAMED: "is not among the devices that the deployment names",
    Why.LEFT: "is avoided for now: a replica of the deployment leaves it, or others fill it",
}


def rooms_for(need: Need) -> tuple[Room, ...]:
    """Cards first: what can run on one is faster there."""
    cards = (Room(need.share),) if "gpu" in need.sizes else ()
    return cards + ((Room.RAM,) if "cpu" in need.sizes else ())


def room_of(need: Need, device: DeviceFacts) -> Room:
    return Room(need.share) if device.kind == "gpu" else Room.RAM


def why_not_node(need: Need, node: NodeFacts) -> str:
    if need.pin and node.name != need.pin:
        return f"is not {need.pin}, where the deployment is pinned"
    if node.blocked:
        return node.blocked
    if need.pool and node.pool != need.pool:
        return f"is in pool {node.pool}, not in {need.pool}"
    if node.preemptible and not need.expendable:
        return "may be taken away: it takes batch and replicas above the least that is wanted"
    if need.anti_affinity == AntiAffinity.REQUIRED and need.deployment_id in node.deployments:
        return "has a replica of the deployment, whose anti_affinity is required"
    if not node.devices:
        return "has reported no device yet"
    return short_of_ram(need, node)


def short_of_ram(need: Need, node: NodeFacts) -> str:
    """Engines on cards have processes, and weights that a card does not hold lie page-locked in
    the RAM of its host."""
    needed, free = rooms.host_bytes(need, node.devices), rooms.ram_free_bytes(node)
    if not needed or free is None or needed <= free:
        return ""
    read = node.ram_available_bytes
    seen = "" if read is None else f", {gib(read)} are free"
    coming = f", {gib(node.ram_coming_bytes)} go to launches that start" if seen else ""
    return (
        f"has {gib(free)} of its {gib(node.ram_bytes)} of RAM to give "
        f"({gib(node.ram_booked_bytes)} are booked{seen}{coming}); "
        f"{gib(needed)} are needed, for processes and what cpu_offload_gb leaves there"
    )


def why_not(need: Need, room: Room, device: DeviceFacts) -> Why | None:
    if device.kind not in need.sizes or (room is Room.RAM) != (device.kind == "cpu"):
        return Why.KIND
    if device.blocked:
        return Why.BLOCKED
    if _cannot_run(need, device):
        return Why.CAPABILITY
    if need.uuids and device.uuid not in need.uuids:
        return Why.NOT_NAMED
    if device.id in need.avoid:
        return Why.LEFT
    if need.devices > 1 and device.is_slice:
        return Why.SLICE
    return _no_room(need, room, device)


def told(why: Why, need: Need, room: Room, device: DeviceFacts) -> str:
    match why:
        case Why.KIND:
            return f"is a {device.kind}, on which this engine does not run"
        case Why.BLOCKED | Why.CAPABILITY:
            return device.blocked or f"cannot run it: {_cannot_run(need, device)}"
        case Why.NOT_NAMED | Why.LEFT:
            return _WORDS[why]
        case Why.SLICE:
            return (
                f"is a MIG slice: an engine sees one of them alone, and {need.devices} are wanted"
            )
        case Why.TAKEN:
            return f"is held by {_holders(device)}, and a card of its own is wanted"
        case Why.PRIORITY:
            return f"is shared by {_holders(device)} of another priority"
        case Why.MEMORY:
            return _short(need, room, device)


def _no_room(need: Need, room: Room, device: DeviceFacts) -> Why | None:
    if room is Room.OWN and device.booked:
        return Why.TAKEN
    if room is Room.SHARED and any(it.priority != need.priority for it in device.holders):
        return Why.PRIORITY
    least = rooms.least_bytes(need, room, device)
    return Why.MEMORY if rooms.budget_bytes(room, device) < least else None


def _cannot_run(need: Need, device: DeviceFacts) -> str:
    if need.card is None or device.kind == "cpu":
        return ""
    return need.card.why_not(device.compute_capability)


def _short(need: Need, room: Room, device: DeviceFacts) -> str:
    free, least = rooms.free_bytes(device), rooms.least_bytes(need, room, device)
    booked = rooms.booked_bytes(device)
    to_come = f", {gib(device.coming_bytes)} of it not taken yet" if device.coming_bytes else ""
    stated = f" ({need.stated})" if need.stated else ""
    if room is Room.OWN:
        total = device.memory_total_bytes
        share = rooms.own_ratio(total, device.foreign_bytes)
        least = max(least, int(total * share))
    return (
        f"has {gib(free)} free of {gib(device.memory_total_bytes)} "
        f"({gib(booked)} booked{to_come}, {gib(device.foreign_bytes)} used by others); "
        f"{gib(least)} are needed{stated}"
    )


def _holders(device: DeviceFacts) -> str:
    names = sorted({holder.name or f"replica {holder.replica_id}" for holder in device.holders})
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
