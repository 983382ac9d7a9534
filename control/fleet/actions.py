"""Changes to what is wanted of the fleet; only reconcile starts and drains replicas."""

from contextlib import suppress
from dataclasses import asdict
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef

from control import checks
from control.fleet import recycle, rules, scaling, upkeep
from control.fleet.placing import Placing, project_named, put
from control.fleet.rules import DeploymentWanted
from control.fleet.scaling import Scaling, scaling_of
from control.fleet.sleeping import facts as sleeping
from control.fleet.upkeep import Upkeep
from control.models import Deployment, Override, Replica, SnapshotPart, Version
from control.models.audit import record
from control.placement.wanted import PlacementWanted, placement
from control.states import DEPLOYMENT_MOVES, REPLICA_LIVE, DeploymentState, Part


def save_deployment(wanted: DeploymentWanted, *, by: str, reason: str, at: datetime) -> Deployment:
    """Make the deployment what is wanted, or bring it back. Equal changes nothing."""
    checks.require(rules.deployment_problems(wanted))
    with transaction.atomic():
        version = _version(wanted)
        if version.is_external:
            checks.require(rules.external_problems(wanted))
        placing = wanted.placement
        on = (wanted.node, placing.pool, placing.devices)
        checks.require(_sleep_problems(wanted.scaling, wanted.replicas_min, version, on))
        stored = Deployment.objects.select_for_update().filter(name=wanted.name).first()
        before = _facts(stored) if stored else None
        deployment = stored or Deployment(name=wanted.name)
        _refuse_other_model(stored, version)
        deployment.version, deployment.node = version, wanted.node
        deployment.bucket = asdict(wanted.bucket) if wanted.bucket else None
        put(deployment, _placing(wanted), project_named(wanted.project))
        deployment.recycle = recycle.stored(wanted.recycle)
        deployment.scaling = scaling.stored(wanted.scaling)
        deployment.allow_shorter_context = wanted.allow_shorter_context
        _count(deployment, wanted.replicas_min, wanted.replicas_max, fresh=not _active(stored))
        deployment.state = DeploymentState.ACTIVE
        if before == _facts(deployment):
            return deployment
        # Someone changed their mind: with this instant behind a failure, it is tried again now.
        deployment.launch_after, deployment.note, deployment.hindrance = at, "", ""
        deployment.retry_at = at
        _keep(deployment, before, "save deployment", by=by, reason=reason, at=at)
        _forget_other_versions(deployment, at)
        SnapshotPart.raise_version(Part.ROUTES)
    return deployment


def scale(
    name: str, replicas_min: int, replicas_max: int, *, by: str, reason: str, at: datetime
) -> Deployment:
    """Other bounds for how many replicas are wanted; schedules and sleep must fit them."""
    checks.require(rules.count_problems(replicas_min, replicas_max))
    with transaction.atomic():
        deployment = _deployment(name, DeploymentState.ACTIVE)
        if deployment.version.is_external and replicas_max > 1:
            raise checks.refuse("replicas.max", "an external engine has one replica")
        before = _facts(deployment)
        _count(deployment, replicas_min, replicas_max)
        checks.require(_scaling_problems(deployment, scaling_of(deployment.scaling)))
        if before != _facts(deployment):
            deployment.launch_after = deployment.retry_at = at
            _keep(deployment, before, "scale deployment", by=by, reason=reason, at=at)
    return deployment


def save_scaling(name: str, wanted: Scaling, *, by: str, reason: str, at: datetime) -> Deployment:
    """Other words for how it grows and shrinks, whole; its bounds are scale()'s."""
    with transaction.atomic():
        deployment = _deployment(name, DeploymentState.ACTIVE)
        checks.require(_scaling_problems(deployment, wanted))
        before = _facts(deployment)
        deployment.scaling = scaling.stored(wanted)
        if before != _facts(deployment):
            _keep(deployment, before, "change scaling", by=by, reason=reason, at=at)
    return deployment


def place(name: str, placing: Placing, *, by: str, reason: str, at: datetime) -> Deployment:
    """Other words for where its replicas go, from the next launch on."""
    checks.require(rules.placing_problems(placing))
    with transaction.atomic():
        deployment = _deployment(name, DeploymentState.ACTIVE)
        if deployment.version.is_external and placing.placement != PlacementWanted():
            raise checks.refuse("placement", "an external engine is not placed: leave it out")
        before = _facts(deployment)
        put(deployment, placing, project_named(placing.project))
        if before != _facts(deployment):
            deployment.launch_after = at
            _keep(deployment, before, "place deployment", by=by, reason=reason, at=at)
    return deployment


def save_upkeep(name: str, wanted: Upkeep, *, by: str, reason: str, at: datetime) -> Deployment:
    """Another pin, other words for when replicas are launched anew and how short they may be."""
    checks.require(upkeep.problems(wanted))
    with transaction.atomic():
        deployment = _deployment(name, DeploymentState.ACTIVE)
        if deployment.version.is_external:
            checks.require(upkeep.external_problems(wanted))
        before = _facts(deployment)
        deployment.node, deployment.recycle = wanted.node, recycle.stored(wanted.recycle)
        deployment.allow_shorter_context = wanted.allow_shorter_context
        checks.require(_scaling_problems(deployment, scaling_of(deployment.scaling)))
        if before != _facts(deployment):
            deployment.launch_after = deployment.retry_at = at
            deployment.note = deployment.hindrance = ""
            _keep(deployment, before, "change upkeep", by=by, reason=reason, at=at)
    return deployment


def drain_deployment(name: str, *, by: str, reason: str, at: datetime) -> None:
    """Want no replica any more: no new calls, running ones end, then it may be archived."""
    with transaction.atomic():
        deployment = _deployment(name, DeploymentState.ACTIVE)
        deployment.state, deployment.replicas_wanted = DeploymentState.DRAINING, 0
        deployment.note = reason
        deployment.save(update_fields=["state", "replicas_wanted", "note"])
        record("drain deployment", name, by=by, reason=reason, at=at)
        SnapshotPart.raise_version(Part.ROUTES)


def archive_deployment(name: str, *, by: str, reason: str, at: datetime) -> None:
    """Put a drained deployment aside; refused while a replica of it lives."""
    allowed = [was for was, moves in DEPLOYMENT_MOVES.items() if DeploymentState.ARCHIVED in moves]
    with transaction.atomic():
        deployment = _deployment(name, *allowed)
        if living := _live(deployment).count():
            what = f"{name!r} still has {living} live replica(s): it is archived when they ended"
            raise checks.refuse("deployment", what)
        Deployment.objects.filter(pk=deployment.pk).update(state=DeploymentState.ARCHIVED)
        record("archive deployment", name, by=by, reason=reason, at=at)
        SnapshotPart.raise_version(Part.ROUTES)


def archive_drained(*, by: str, reason: str, at: datetime) -> list[str]:
    """Put aside every draining deployment whose last replica has ended: how a prune ends."""
    draining = Deployment.objects.filter(state=DeploymentState.DRAINING)
    living = Replica.objects.filter(deployment=OuterRef("pk"), state__in=REPLICA_LIVE)
    archived = []
    for name in draining.filter(~Exists(living)).order_by("name").values_list("name", flat=True):
        with suppress(checks.Refused):  # someone wants it again since
            archive_deployment(name, by=by, reason=reason, at=at)
            archived.append(name)
    return archived


def _scaling_problems(deployment: Deployment, wanted: Scaling) -> list[checks.Problem]:
    """With the bounds of the row, which may not be stored yet."""
    placing = placement(deployment.placement)
    on = (deployment.node, placing.pool, placing.devices)
    return [
        *scaling.problems("scaling", wanted, deployment.replicas_max),
        *_sleep_problems(wanted, deployment.replicas_min, deployment.version, on),
    ]


def _sleep_problems(
    wanted: Scaling, least: int, version: Version, on: tuple[str, str, tuple[str, ...]]
) -> list[checks.Problem]:
    """`on`: node, pool and devices that it is held to."""
    if not wanted.sleep:
        return []
    kind = version.engine.get("kind", "")
    return rules.sleep_problems(wanted, least, kind, sleeping.device_kinds(*on))


def _count(deployment: Deployment, least: int, most: int, fresh: bool = False) -> None:
    now = None if fresh else deployment.replicas_wanted
    deployment.replicas_min, deployment.replicas_max = least, most
    deployment.replicas_wanted = rules.count_wanted(now, least, most)


def _placing(wanted: DeploymentWanted) -> Placing:
    return Placing(wanted.priority, wanted.project, wanted.placement, wanted.objective)


def _forget_other_versions(deployment: Deployment, at: datetime) -> None:
    """What failures of a version taught ends with it."""
    taught = Override.objects.filter(deployment=deployment, dropped_at=None)
    taught.exclude(version=deployment.version).update(dropped_at=at)


def _active(stored: Deployment | None) -> bool:
    return stored is not None and stored.state == DeploymentState.ACTIVE


def _version(wanted: DeploymentWanted) -> Version:
    found = Version.objects.filter(
        model__name=wanted.model, name=wanted.version, archived_at=None, model__archived_at=None
    )
    version = found.select_related("model").first()
    if version is None:
        what = f"there is no version {wanted.version!r} of model {wanted.model!r}"
        raise checks.refuse("version", what)
    return version


def _refuse_other_model(stored: Deployment | None, version: Version) -> None:
    """Versions replace each other one by one; calls must not be answered by two models."""
    before = stored and stored.version.model
    if before is None or before.pk == version.model_id or not _live(stored).exists():
        return
    what = f"{stored.name!r} serves {before}: drain it first, or name a new deployment"
    raise checks.refuse("model", what)


def _live(deployment: Deployment):
    return Replica.objects.filter(deployment=deployment, state__in=REPLICA_LIVE)


def _deployment(name: str, *states: DeploymentState) -> Deployment:
    found = Deployment.objects.select_for_update().filter(name=name, state__in=states)
    deployment = found.first()
    if deployment is None:
        kinds = " or ".join(str(state) for state in states)
        raise checks.unknown("deployment", f"there is no {kinds} deployment {name!r}")
    return deployment


def _keep(
    deployment: Deployment, before: dict | None, action: str, *, by: str, reason: str, at: datetime
) -> None:
    """As it is now, and in the audit log what of it is another."""
    deployment.save()
    change = (before, _facts(deployment))
    record(action, deployment.name, by=by, reason=reason, at=at, change=change)


def _facts(deployment: Deployment) -> dict:
    return {
        "version": str(deployment.version),
        "replicas": [deployment.replicas_min, deployment.replicas_max],
        "wanted": deployment.replicas_wanted,
        "node": deployment.node,
        "bucket": deployment.bucket,
        "priority": str(deployment.priority),
        "project": str(deployment.project) if deployment.project else "",
        "placement": deployment.placement,
        "objective": deployment.objective,
        "recycle": deployment.recycle,
        "scaling": deployment.scaling,
        "allow_shorter_context": deployment.allow_shorter_context,
        "state": deployment.state,
    }
