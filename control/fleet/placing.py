"""What a deployment says of its place: stored, asked for, and written."""

from dataclasses import dataclass

from control import checks
from control.models import Deployment, Project
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


def put(row: Deployment, placing: Placing, project: Project | None) -> None:
    """Into the row, unsaved."""
    row.priority, row.project = placing.priority, project
    row.placement = wanted.named(placing.placement)
    row.objective = wanted.named(placing.objective) or None


def project_named(name: str) -> Project | None:
    if not name:
        return None
    tenant, _, project = name.partition("/")
    found = Project.objects.filter(
        tenant__name=tenant, name=project, archived_at=None, tenant__archived_at=None
    )
    row = found.select_related("tenant").first()
    if row is None:
        raise checks.refuse("project", f"there is no project {name!r}")
    return row
