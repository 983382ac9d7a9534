"""Device quotas of projects: what one may hold at most, and what is kept for the others. Pure."""

from control.placement.fleet import EMPTY, Fleet, shelf_of
from control.placement.world import DeviceFacts, Need, Unplaced


def over_maximum(need: Need, fleet: Fleet) -> Unplaced | None:
    quota = fleet.quotas.get(need.project_id) if need.project_id is not None else None
    if quota is None or quota.maximum is None:
        return None
    held = len(fleet.held.get(quota.id, ()))
    if held + need.devices <= quota.maximum:
        return None
    why = f"holds {held} of {quota.maximum} devices at most, and {need.devices} more are needed"
    raised = f"raise devices.maximum of {quota.name}"
    return Unplaced({f"project {quota.name}": why}, (raised, "want fewer replicas"))


def beyond_guarantees(
    need: Need, devices: tuple[DeviceFacts, ...], fleet: Fleet
) -> Unplaced | None:
    """Empty cards that others may count on are not given away, unless it is owed them itself."""
    taken = sum(shelf_of(device) == EMPTY for device in devices)
    if not taken or _own(need, fleet) >= taken:
        return None
    owed = {
        quota.name: quota.guaranteed - len(fleet.held.get(quota.id, ()))
        for quota in fleet.quotas.values()
        if quota.id != need.project_id
    }
    owed = {name: count for name, count in owed.items() if count > 0}
    left = fleet.empty_cards - sum(owed.values())
    if taken <= left:
        return None
    reasons = {
        f"project {name}": f"is guaranteed {count} more of the {fleet.empty_cards} empty devices"
        for name, count in owed.items()
    }
    return Unplaced(reasons, ("lower what is guaranteed", "share a card (placement.share: shared)"))


def _own(need: Need, fleet: Fleet) -> int:
    """How many the project of the need is still owed itself."""
    quota = fleet.quotas.get(need.project_id) if need.project_id is not None else None
    return quota.guaranteed - len(fleet.held.get(quota.id, ())) if quota else 0
