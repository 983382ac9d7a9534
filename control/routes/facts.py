"""Public names and what stands behind them, as pages and the status command read it."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F

from control.models import Replica, Route, Target
from control.routes import stored
from control.routes.wanted import RouteWanted, TargetWanted
from control.states import ReplicaState

ROWS_MAX = 1000


@dataclass(frozen=True)
class TargetFacts:
    deployment: str
    deployment_state: str
    model: str
    version: str
    weight: int
    ready_replicas: int


@dataclass(frozen=True)
class RouteFacts:
    """What is wanted of a route, and where its targets stand."""

    wanted: RouteWanted
    targets: tuple[TargetFacts, ...]
    created_at: datetime
    archived_at: datetime | None

    @property
    def name(self) -> str:
        return self.wanted.name

    @property
    def note(self) -> str:
        return self.wanted.note

    @property
    def ready_replicas(self) -> int:
        return sum(target.ready_replicas for target in self.targets)

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(target.model for target in self.targets))


def routes(
    *, name: str | None = None, archived: bool = False, first: int = 0, count: int = ROWS_MAX
) -> list[RouteFacts]:
    rows = Route.objects.select_related("fallback")
    rows = rows.order_by(F("archived_at").asc(nulls_first=True), "name")
    if name is not None:
        rows = rows.filter(name=name)
    if not archived:
        rows = rows.filter(archived_at=None)
    found = list(rows[first : first + min(count, ROWS_MAX)])
    ready = Counter(
        Replica.objects.filter(state=ReplicaState.READY).values_list("deployment_id", flat=True)
    )
    targets = defaultdict(list)
    of_routes = Target.objects.filter(route__in=[route.pk for route in found])
    for target in of_routes.select_related("deployment__version__model").order_by("pk"):
        deployment = target.deployment
        targets[target.route_id].append(
            TargetFacts(
                deployment=deployment.name,
                deployment_state=deployment.state,
                model=deployment.version.model.name,
                version=deployment.version.name,
                weight=target.weight,
                ready_replicas=ready[deployment.pk],
            )
        )
    return [_route(route, tuple(targets[route.pk])) for route in found]


def route(name: str) -> RouteFacts | None:
    """Also one from the archive."""
    return next(iter(routes(name=name, archived=True, count=1)), None)


def route_names() -> list[str]:
    """Those in force, for a choice."""
    rows = Route.objects.filter(archived_at=None).order_by("name")
    return list(rows.values_list("name", flat=True)[:ROWS_MAX])


def _route(route: Route, targets: tuple[TargetFacts, ...]) -> RouteFacts:
    weights = [TargetWanted(target.deployment, target.weight) for target in targets]
    fallback = route.fallback.name if route.fallback else None
    return RouteFacts(
        wanted=stored.wanted(route, weights, fallback),
        targets=targets,
        created_at=route.created_at,
        archived_at=route.archived_at,
    )
