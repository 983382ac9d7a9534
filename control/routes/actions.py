"""Changes to routes: one short transaction each, audited, heard by the gateways."""

from datetime import datetime

from django.db import transaction

from control import checks
from control.models import Deployment, Route, SnapshotPart, Target
from control.models.audit import record
from control.routes import rules
from control.routes.rules import RouteWanted
from control.states import DeploymentState, Part


def save_route(wanted: RouteWanted, *, by: str, reason: str, at: datetime) -> Route:
    """Make the route what is wanted, or bring it back. Equal changes nothing."""
    checks.require(rules.route_problems(wanted))
    with transaction.atomic():
        deployments = _deployments(wanted)
        route, made = Route.objects.select_for_update().get_or_create(name=wanted.name)
        before = None if made else _facts(route)
        route.stop, route.note = list(wanted.stop), wanted.note
        route.output_tokens_default = wanted.output_tokens_default
        route.output_tokens_max = wanted.output_tokens_max
        route.archived_at = None
        if before == _facts(route) | {"targets": _weights(wanted)}:
            return route
        route.save()
        Target.objects.filter(route=route).delete()
        for target in wanted.targets:
            row = {"deployment": deployments[target.deployment], "weight": target.weight}
            Target.objects.create(route=route, **row)
        change = (before, _facts(route))
        record("save route", route.name, by=by, reason=reason, at=at, change=change)
        SnapshotPart.raise_version(Part.ROUTES)
    return route


def archive_route(name: str, *, by: str, reason: str, at: datetime) -> None:
    """Put a route aside: calls to it get 404 from now on."""
    with transaction.atomic():
        if not Route.objects.filter(name=name, archived_at=None).update(archived_at=at):
            raise checks.unknown("route", f"there is no route {name!r}")
        record("archive route", name, by=by, reason=reason, at=at)
        SnapshotPart.raise_version(Part.ROUTES)


def _deployments(wanted: RouteWanted) -> dict[str, Deployment]:
    names = [target.deployment for target in wanted.targets]
    found = Deployment.objects.filter(name__in=names).exclude(state=DeploymentState.ARCHIVED)
    known = {deployment.name: deployment for deployment in found}
    checks.require(
        checks.Problem(f"targets[{number}].deployment", f"there is no deployment {name!r}")
        for number, name in enumerate(names)
        if name not in known
    )
    return known


def _weights(wanted: RouteWanted) -> dict[str, int]:
    return {target.deployment: target.weight for target in wanted.targets}


def _facts(route: Route) -> dict:
    targets = Target.objects.filter(route=route).select_related("deployment").order_by("pk")
    return {
        "targets": {target.deployment.name: target.weight for target in targets},
        "stop": list(route.stop),
        "output_tokens_default": route.output_tokens_default,
        "output_tokens_max": route.output_tokens_max,
        "note": route.note,
        "archived": route.archived_at is not None,
    }
