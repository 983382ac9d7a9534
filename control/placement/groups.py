"""Which devices of one node work together: linked by NVLink where they can be. Pure."""

from collections.abc import Sequence

from control.placement.room import free_bytes
from control.placement.wanted import Policy
from control.placement.world import DeviceFacts

Group = tuple[DeviceFacts, ...]


def choose(able: Sequence[DeviceFacts], count: int, policy: str) -> Group | None:
    """So many of them, or None; for several a linked group, if there is one."""
    if len(able) < count:
        return None
    ordered = _ordered(able, policy)
    if count == 1:
        return (ordered[0],)
    linked = _linked(ordered, count)
    return linked or tuple(ordered[:count])


def are_linked(group: Sequence[DeviceFacts]) -> bool:
    """Each to each: tensor parallel ranks all talk to one another."""
    return all(other.uuid in one.links for one in group for other in group if one is not other)


def largest_linked(devices: Sequence[DeviceFacts]) -> int:
    """How many devices of a node are linked each to each, at most."""
    return max((len(_grown(seed, devices, len(devices))) for seed in devices), default=0)


def _linked(ordered: Sequence[DeviceFacts], count: int) -> Group | None:
    """The first group that begins with the tightest fit; n devices of a host make n tries."""
    for seed in ordered:
        group = _grown(seed, ordered, count)
        if len(group) == count:
            return tuple(group)
    return None


def _grown(seed: DeviceFacts, devices: Sequence[DeviceFacts], count: int) -> list[DeviceFacts]:
    group = [seed]
    for device in devices:
        if len(group) == count:
            break
        if device is not seed and all(device.uuid in member.links for member in group):
            group.append(device)
    return group


def _ordered(devices: Sequence[DeviceFacts], policy: str) -> list[DeviceFacts]:
    if len(devices) == 1:
        return list(devices)
    sign = -1 if policy == Policy.SPREAD else 1
    return sorted(devices, key=lambda device: sign * free_bytes(device))
