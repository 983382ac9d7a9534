"""What a change of a deployment's place would do, before it is made."""

from datetime import datetime

from control import checks
from control.fleet.placing import Placing, project_named, put
from control.models import Deployment
from control.placement.preview import Preview, preview, read_fleet
from control.states import DeploymentState


def preview_of(name: str, placing: Placing | None, *, at: datetime) -> Preview:
    """Of one launch more; with `placing`, as if that were stored."""
    rows = Deployment.objects.exclude(state=DeploymentState.ARCHIVED)
    rows = rows.select_related("version__model", "version__measure", "project__tenant")
    row = rows.filter(name=name).first()
    if row is None:
        raise checks.unknown("deployment", f"there is no deployment {name!r}")
    if row.version.is_external:
        raise checks.refuse("deployment", "an external engine is not placed")
    if placing:
        put(row, placing, project_named(placing.project))
    return preview(row.version, row, read_fleet(at))
