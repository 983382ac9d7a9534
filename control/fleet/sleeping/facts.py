"""Where a deployment may run: sleep is for cards."""

from control.models import Device
from control.states import NodeState


def device_kinds(node: str, pool: str, uuids: tuple[str, ...]) -> frozenset[str]:
    """Of the devices that a deployment with these pins may be placed on; none if none is there."""
    rows = Device.objects.exclude(node__state=NodeState.REMOVED)
    if node:
        rows = rows.filter(node__name=node)
    if pool:
        rows = rows.filter(node__pool=pool)
    if uuids:
        rows = rows.filter(uuid__in=uuids)
    return frozenset(rows.values_list("kind", flat=True).distinct())
