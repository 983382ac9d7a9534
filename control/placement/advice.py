"""What an operator can change when a launch finds no place. Pure."""

from control.placement import filters
from control.placement.filters import Why
from control.placement.fleet import Fleet
from control.placement.remedies import PARALLEL
from control.placement.room import gib
from control.placement.wanted import AntiAffinity
from control.placement.world import Need, Room

_CHANGES = {
    Why.TAKEN: "let it share cards (placement.share: shared) with launches that do",
    Why.SLICE: "leave out tensor_parallel_size, or name a pool of whole cards",
    Why.NOT_NAMED: "name other devices (placement.devices)",
}
LOOKED_AT_MAX = 16  # nodes: what stands in the way there stands in the way elsewhere


def advice(need: Need, fleet: Fleet) -> tuple[str, ...]:
    """The nearest cures first; nothing that would not help."""
    whys = set(_whys(need, fleet))
    found = [change for why, change in _CHANGES.items() if why in whys]
    if Why.MEMORY in whys:
        found.append(_smaller(need, fleet))
    if Why.CAPABILITY in whys and need.card:
        least = ".".join(map(str, need.card.capability))
        found.append(f"give it cards of compute capability {least}, or another format")
    if need.pin:
        found.append("leave out node")
    if need.anti_affinity == AntiAffinity.REQUIRED:
        found.append("say anti_affinity: preferred")
    if need.pool and not any(node.pool == need.pool for node in fleet.nodes):
        found.append(f"put a node into pool {need.pool}: none is in it")
    cordoned = [node.name for node in fleet.nodes[:LOOKED_AT_MAX] if "cordoned" in node.blocked]
    if cordoned:
        found.append(f"uncordon {cordoned[0]}")
    return tuple(dict.fromkeys(found))


def _smaller(need: Need, fleet: Fleet) -> str:
    room = filters.rooms_for(need)[0]
    kind = "cpu" if room is Room.RAM else "gpu"
    size, most = need.sizes[kind], fleet.largest(need, room)
    if most >= size.fixed_bytes:
        least = gib(size.kv_bytes_min)
        return f"ask for a smaller KV cache than {least} (memory, max_model_len)"
    over = 2 * need.devices
    if room is not Room.RAM and over <= min(PARALLEL[-1], _cards_on_one_host(need, fleet)):
        return f"split it over {over} devices (tensor_parallel_size)"
    return f"free memory: the largest gap has {gib(most)}"


def _cards_on_one_host(need: Need, fleet: Fleet) -> int:
    """Whole ones: one model goes over those of one host, and a slice is for an engine alone."""
    return max(
        (
            sum(it.kind == "gpu" and not it.is_slice for it in node.devices)
            for node in fleet.nodes[:LOOKED_AT_MAX]
            if (not need.pool or node.pool == need.pool) and need.pin in ("", node.name)
        ),
        default=0,
    )


def _whys(need: Need, fleet: Fleet) -> list[Why]:
    return [
        why
        for node in fleet.nodes[:LOOKED_AT_MAX]
        if not filters.why_not_node(need, node)
        for device in node.devices
        if (why := filters.why_not(need, filters.room_of(need, device), device))
    ]
