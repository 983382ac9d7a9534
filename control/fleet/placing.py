"""What a stored deployment says of its place."""

from dataclasses import dataclass

from control.models import Deployment
from control.placement import wanted
from control.placement.wanted import Objective, PlacementWanted


@dataclass(frozen=True)
class Placing:
    priority: str
    project: str  # tenant/project in whose device quota its replicas count, or nothing
    placement: PlacementWanted
    objective: Objective | None


def placing_of(row: Deployment) -> Placing:
    return Placing(
        priority=row.priority,
        project=str(row.project) if row.project else "",
        placement=wanted.placement(row.placement),
        objective=wanted.objective(row.objective),
    )
