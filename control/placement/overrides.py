"""The overrides that are in force for a version of a deployment, and on hosts."""

from control.models import Deployment, Override, Replica, Version
from control.placement import changes
from control.placement.changes import Changes
from control.states import REPLICA_LIVE

NONE = Changes()


def in_force(version: Version, deployment: Deployment) -> Changes:
    """Reads what was prefetched, if it was."""
    rows = [row for row in deployment.overrides.all() if holds(row, version.pk)]
    return changes.merged(changes.read(row.changes) for row in rows) if rows else NONE


def holds(row: Override, version_id: int) -> bool:
    return row.dropped_at is None and row.version_id == version_id


def arguments(version: Version, deployment: Deployment) -> dict:
    return {**version.arguments, **in_force(version, deployment).arguments()}


def full_hosts() -> dict[int, str]:
    """Nodes that run as many engines as they may since one ended for want of RAM, and why."""
    limits: dict[int, int] = {}
    for row in Override.objects.filter(dropped_at=None).exclude(node=None):
        if (most := changes.read(row.changes).host_engines_max) is not None:
            limits[row.node_id] = min(most, limits.get(row.node_id, most))
    if not limits:
        return {}
    counts = dict.fromkeys(limits, 0)
    for node_id in Replica.objects.filter(node__in=limits, state__in=REPLICA_LIVE).values_list(
        "node_id", flat=True
    ):
        counts[node_id] += 1
    return {
        node_id: f"runs {counts[node_id]} of {most} engines: its memory was exhausted by more"
        for node_id, most in limits.items()
        if counts[node_id] >= most
    }
