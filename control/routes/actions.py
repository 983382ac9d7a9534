"""Changes to routes: one short transaction each, audited, heard by the gateways."""

from datetime import datetime

from django.db import transaction

from control import checks
from control.models import Deployment, Route, SnapshotPart, Target, Tenant
from control.models.audit import record
from control.routes import rules, stored
from control.routes.wanted import RouteWanted, TargetWanted
from control.states import DeploymentState, Part


def save_route(wanted: RouteWanted, *, by: str, reason: str, at: datetime) -> Route:
    """Make the route what is wanted, or bring it back. Equal changes nothing."""
    checks.require(rules.route_problems(wanted))
    with transaction.atomic():
        deployments = _deployments(wanted)
        _require_tenants(wanted)
        route, made = Route.objects.select_for_update().get_or_create(name=wanted.name)
        before = None if made else _facts(route)
        for name, value in stored.columns(wanted).items():
            setattr(route, name, value)
        route.fallback = deployments[wanted.fallback] if wanted.fallback else None
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
    names = dict(rules.deployments_named(wanted))
    found = Deployment.objects.filter(name__in=names.values())
    known = {it.name: it for it in found.exclude(state=DeploymentState.ARCHIVED)}
    checks.require(
        checks.Problem(path, f"there is no deployment {name!r}")
        for path, name in names.items()
        if name not in known
    )
    return known


def _require_tenants(wanted: RouteWanted) -> None:
    """A tenant that is misspelt would go another way without a word."""
    names = dict(rules.tenants_named(wanted))
    found = Tenant.objects.filter(name__in=names.values(), archived_at=None)
    known = set(found.values_list("name", flat=True)) if names else set()
    checks.require(
        checks.Problem(path, f"there is no tenant {name!r}")
        for path, name in names.items()
        if name not in known
    )


def _weights(wanted: RouteWanted) -> dict[str, int]:
    return {target.deployment: target.weight for target in wanted.targets}


def _facts(route: Route) -> dict:
    rows = Target.objects.filter(route=route).select_related("deployment").order_by("pk")
    targets = [TargetWanted(row.deployment.name, row.weight) for row in rows]
    fallback = route.fallback.name if route.fallback else None
    now = stored.wanted(route, targets, fallback)
    return stored.columns(now) | {
        "targets": _weights(now),
        "fallback": fallback,
        "archived": route.archived_at is not None,
    }
