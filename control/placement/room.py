"""How much of a device can be booked, and how much a launch books of it. Pure."""

from collections.abc import Iterable, Sequence
from math import ceil

from control.placement.memory import GIB, OWN_KEPT_BYTES, OWN_RATIO, Sizes
from control.placement.world import DeviceFacts, Holder, Need, NodeFacts, Range, Room

RESERVE_RATIO = 0.02
RESERVE_BYTES_MAX = GIB // 2
RAM_RATIO = 0.8  # of a host's RAM that may be booked beside cards: all else there needs some too
SHARED_FACTOR = 1.2  # of what an engine needs: its peaks are not its neighbours'
BESIDE_FACTOR = 1.4  # beside another model, whose peaks come at other times


def free_bytes(device: DeviceFacts) -> int:
    """What can still be booked: neither ours by ledger, nor used by others, nor used unbooked."""
    booked = booked_bytes(device)
    free = device.memory_total_bytes - booked - device.foreign_bytes
    if device.memory_free_bytes is not None:
        free = min(free, device.memory_free_bytes - device.coming_bytes)
    return max(0, free - _kept_bytes(device.memory_total_bytes))


def booked_bytes(device: DeviceFacts) -> int:
    return sum(upper - lower for lower, upper in device.booked)


def coming_bytes(holders: Iterable[Holder]) -> int:
    """Booked, and not taken yet: the host shows it as free, and one that takes more than it booked
    must not make up for it."""
    return sum(
        max(0, sum(upper - lower for lower, upper in holder.ranges) - (holder.taken_bytes or 0))
        for holder in holders
        if holder.starts or holder.taken_bytes is not None
    )


def own_ratio(total_bytes: int, foreign_bytes: int = 0) -> float:
    """Share of a card of its own that an engine gets, never its default; foreign memory counts."""
    least, most = OWN_RATIO
    ratio = 1 - (OWN_KEPT_BYTES + foreign_bytes) / max(1, total_bytes)
    return round(min(most, max(least, ratio)), 4)


def own_bytes(device: DeviceFacts) -> int:
    """What an engine alone on the card gets; nothing if others leave too little of it."""
    total = device.memory_total_bytes
    budget = int(total * own_ratio(total, device.foreign_bytes))
    return budget if not device.booked and budget <= free_bytes(device) else 0


def budget_bytes(room: Room, device: DeviceFacts) -> int:
    return own_bytes(device) if room is Room.OWN else free_bytes(device)


def factor(need: Need, room: Room, device: DeviceFacts) -> float:
    """Of what is needed, how much is booked: a shared card keeps a margin."""
    if room is not Room.SHARED:
        return 1.0
    others = any(holder.model_id != need.model_id for holder in device.holders)
    return BESIDE_FACTOR if others else SHARED_FACTOR


def least_bytes(need: Need, room: Room, device: DeviceFacts) -> int:
    """What has to be free there, with one call of full length in its KV cache."""
    return ceil(need.sizes[device.kind].bytes_min * factor(need, room, device))


def kv_bytes(need: Need, room: Room, devices: list[DeviceFacts]) -> int:
    """The KV cache on each: all that is left of an own card; else what is wanted, or fits."""
    size = need.sizes[devices[0].kind]
    fits = min(kv_in(size, budget_bytes(room, it), factor(need, room, it)) for it in devices)
    return fits if room is Room.OWN else min(size.kv_bytes, fits)


def kv_in(size: Sizes, booked: int, factor: float) -> int:
    return int(booked / factor) - size.fixed_bytes


def share_bytes(need: Need, room: Room, device: DeviceFacts, kv: int) -> int:
    """What is booked on one device: a card of its own whole, so that nothing else comes there."""
    if room is Room.OWN:
        return device.memory_total_bytes
    wanted = ceil((need.sizes[device.kind].fixed_bytes + kv) * factor(need, room, device))
    return min(wanted, free_bytes(device))


def host_bytes(need: Need, devices: Sequence[DeviceFacts]) -> int:
    """RAM of their host that a launch on these devices takes beside them."""
    size = need.sizes.get(devices[0].kind) if devices else None
    return size.host_bytes if size else 0


def ram_free_bytes(node: NodeFacts) -> int | None:
    """What its host can still give beside its cards; None: it has not said what it has."""
    if not node.ram_bytes:
        return None
    free = int(node.ram_bytes * RAM_RATIO) - node.ram_booked_bytes
    if node.ram_available_bytes is not None:
        free = min(free, node.ram_available_bytes - node.ram_coming_bytes)
    return max(0, free)


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


def _kept_bytes(total_bytes: int) -> int:
    return min(int(total_bytes * RESERVE_RATIO), RESERVE_BYTES_MAX)
