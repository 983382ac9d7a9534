"""Changes to the catalogue: versions are added and put aside, never altered."""

from datetime import datetime

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction

from control import checks
from control.catalog import rules
from control.catalog.rules import IMMUTABLE, VersionWanted
from control.models import CatalogModel, Deployment, SnapshotPart, Version
from control.models.audit import record
from control.models.sealing import opened, seal
from control.states import DeploymentState, Part

# Who acts from a shell has the platform's own credentials, and no user's name has a colon.
SHELL = "shell:"


def save_version(
    model: str, version: str, content: VersionWanted, *, by: str, reason: str, at: datetime
) -> Version:
    """Add a version, or find it as it is wanted. Other content under its name is refused."""
    allowed = settings.WEIR_ALLOW_STUB
    checks.require(rules.version_problems(model, version, content, stub_allowed=allowed))
    _require_owner(content, by)
    with transaction.atomic():
        entry = save_model(model, by=by, reason=reason, at=at)
        stored = Version.objects.select_for_update().filter(model=entry, name=version).first()
        if stored is None:
            stored = _insert(entry, version, content)
            change = (None, content.content)
            record("create version", str(stored), by=by, reason=reason, at=at, change=change)
            for what, why in (content.unsafe or {}).items():
                record(f"allow {what}", str(stored), by=by, reason=why, at=at)
            return stored
        if stored.digest != content.digest:
            raise checks.refuse("version", f"{stored} is stored already; {IMMUTABLE}")
        if _revise(stored, content):
            record("save version", str(stored), by=by, reason=reason, at=at)
    return stored


def save_model(name: str, *, by: str, reason: str, at: datetime) -> CatalogModel:
    """A catalogue entry to put versions under, new or from the archive."""
    checks.require(checks.model_name("name", name))
    with transaction.atomic():
        entry, made = CatalogModel.objects.select_for_update().get_or_create(name=name)
        if made or entry.archived_at is not None:
            CatalogModel.objects.filter(pk=entry.pk).update(archived_at=None)
            entry.archived_at = None
            record("save model", name, by=by, reason=reason, at=at)
    return entry


def archive_model(name: str, *, by: str, reason: str, at: datetime) -> None:
    """Put a model and its versions aside; refused while a deployment wants one."""
    with transaction.atomic():
        entry = _active_model(name)
        _refuse_wanted(Deployment.objects.filter(version__model=entry), f"model {name!r}")
        CatalogModel.objects.filter(pk=entry.pk).update(archived_at=at)
        record("archive model", name, by=by, reason=reason, at=at)


def archive_version(model: str, name: str, *, by: str, reason: str, at: datetime) -> None:
    with transaction.atomic():
        entry = _active_model(model)
        version = Version.objects.filter(model=entry, name=name, archived_at=None).first()
        if version is None:
            raise checks.unknown("version", f"model {model!r} has no version {name!r}")
        _refuse_wanted(Deployment.objects.filter(version=version), f"version {version}")
        Version.objects.filter(pk=version.pk).update(archived_at=at)
        record("archive version", str(version), by=by, reason=reason, at=at)


def _insert(entry: CatalogModel, name: str, content: VersionWanted) -> Version:
    key = content.upstream_key
    return Version.objects.create(
        model=entry,
        name=name,
        **content.content,
        upstream_key=seal(key) if key else None,
        digest=content.digest,
    )


def _revise(stored: Version, content: VersionWanted) -> bool:
    """What may change: the key of an external engine, and being in the archive."""
    key = content.upstream_key
    now = opened(stored.upstream_key)
    if now == key and stored.archived_at is None:
        return False
    if now != key:
        stored.upstream_key = seal(key) if key else None
        SnapshotPart.raise_version(Part.REPLICAS)  # gateways send this key
    stored.archived_at = None
    stored.save(update_fields=["upstream_key", "archived_at"])
    return True


def _require_owner(content: VersionWanted, by: str) -> None:
    """Weights that run code of whoever made them: only an owner may let them in."""
    if not content.unsafe or by.startswith(SHELL):
        return
    if not get_user_model().objects.filter(username=by, is_superuser=True, is_active=True).exists():
        raise checks.refuse(
            "unsafe",
            f"only an owner may allow {', '.join(content.unsafe)}: a superuser of the console, or "
            "whoever may run `weir apply` on a host of the platform",
        )


def _active_model(name: str) -> CatalogModel:
    found = CatalogModel.objects.select_for_update().filter(name=name, archived_at=None).first()
    if found is None:
        raise checks.unknown("model", f"there is no model {name!r}")
    return found


def _refuse_wanted(deployments, what: str) -> None:
    wanting = deployments.filter(state=DeploymentState.ACTIVE).order_by("name")
    if names := list(wanting.values_list("name", flat=True)[:5]):
        raise checks.refuse("", f"{what} is wanted by {', '.join(names)}: drain it first")
