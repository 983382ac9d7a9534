"""What a deployment may be: a version, how many times, where."""

from collections.abc import Collection
from dataclasses import dataclass

from control import checks
from control.checks import Bucket, Problem
from control.fleet import scaling, upkeep
from control.fleet.recycle import Recycle
from control.fleet.scaling import Scaling
from control.fleet.sleeping import rules as sleeping
from control.placement import wanted as placing
from control.placement.wanted import Objective, PlacementWanted
from control.states import Priority

REPLICAS_MAX = 1000


@dataclass(frozen=True)
class DeploymentWanted:
    """A deployment, whole: what is left out has its default."""

    name: str
    model: str
    version: str
    replicas_min: int = 1
    replicas_max: int = 1
    node: str = ""
    bucket: Bucket | None = None
    priority: str = Priority.STANDARD
    project: str = ""  # tenant/project in whose device quota its replicas count
    placement: PlacementWanted = PlacementWanted()
    objective: Objective | None = None
    recycle: Recycle | None = None
    scaling: Scaling = Scaling()
    allow_shorter_context: bool = False  # rather than not at all


def deployment_problems(wanted: DeploymentWanted) -> list[Problem]:
    return [
        *checks.name("name", wanted.name),
        *checks.model_name("model", wanted.model),
        *checks.version_name("version", wanted.version),
        *count_problems(wanted.replicas_min, wanted.replicas_max),
        *checks.bucket("bucket", wanted.bucket),
        *placing_problems(wanted),
        *upkeep.problems(wanted),
        *scaling.problems("scaling", wanted.scaling, wanted.replicas_max),
    ]


def placing_problems(wanted) -> list[Problem]:
    """Of a deployment, or of its Placing alone: the same four fields."""
    return [
        *checks.one_of("priority", wanted.priority, Priority),
        *(_project_problems(wanted.project) if wanted.project else []),
        *placing.problems("placement", wanted.placement),
        *placing.objective_problems("objective", wanted.objective),
    ]


def _project_problems(name: str) -> list[Problem]:
    tenant, slash, project = name.partition("/")
    if not slash:
        return [Problem("project", f"{name!r} names no tenant: write tenant/project")]
    return [*checks.name("project", tenant), *checks.name("project", project)]


def count_problems(least: int, most: int) -> list[Problem]:
    problems = [
        *checks.whole("replicas.min", least, 0, REPLICAS_MAX),
        *checks.whole("replicas.max", most, 0, REPLICAS_MAX),
    ]
    if not problems and least > most:
        problems.append(Problem("replicas.max", f"{most} is below replicas.min, {least}"))
    return problems


def external_problems(wanted: DeploymentWanted) -> list[Problem]:
    """Weir does not launch an external engine: there is one, and it is where it is."""
    problems = []
    if wanted.replicas_max > 1:
        problems.append(Problem("replicas.max", "an external engine has one replica"))
    problems += upkeep.external_problems(wanted)
    if wanted.placement != PlacementWanted():
        problems.append(Problem("placement", "an external engine is not placed: leave it out"))
    return problems


def sleep_problems(
    wanted: Scaling, replicas_min: int, engine_kind: str, device_kinds: Collection[str] = ()
) -> list[Problem]:
    """`device_kinds`: of where it may run; none while nobody knows."""
    if not wanted.sleep:
        return []
    why = sleeping.unable(engine_kind, replicas_min, device_kinds)
    return [Problem("scaling.sleep", why)] if why else []


def count_wanted(now: int | None, least: int, most: int) -> int:
    """How many to want: what is wanted now, moved within the bounds; one to begin with."""
    return max(least, min(most, 1 if now is None else now))
