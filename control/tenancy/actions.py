"""Changes to tenants, projects and keys: one short transaction each, audited."""

import secrets
from dataclasses import asdict
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q

from control import checks
from control.metering.prepaid.actions import set_prepaid
from control.models import Key, Project, Route, SnapshotPart, Tenant
from control.models.audit import record
from control.models.sealing import derived, digest_of
from control.states import KEY_MOVES, Billing, KeyState, Part
from control.tenancy import noted, rules
from control.tenancy.rules import (
    DEFAULT_PROJECT,
    OPERATORS,
    KeyWanted,
    NewKey,
    ProjectWanted,
    TenantWanted,
)
from control.tenancy.scope_limits import write_budget, write_devices, write_quota

PLAYGROUND = "playground"
SECRET_BYTES = 30  # 40 url-safe characters
ROTATED_VALID = timedelta(hours=24)


def save_tenant(wanted: TenantWanted, *, by: str, reason: str, at: datetime) -> Tenant:
    """Make the tenant what is wanted, or bring it back from the archive. Equal changes nothing."""
    checks.require(rules.tenant_problems(wanted))
    with transaction.atomic():
        tenant, made = Tenant.objects.select_for_update().get_or_create(
            name=wanted.name, defaults={"priority": wanted.priority, "timezone": wanted.timezone}
        )
        Project.objects.get_or_create(tenant=tenant, name=DEFAULT_PROJECT)
        before = None if made else noted.of_tenant(tenant)
        Tenant.objects.filter(pk=tenant.pk).update(
            priority=wanted.priority,
            timezone=wanted.timezone,
            archived_at=None,
            billing=Billing.PREPAID if wanted.prepaid else Billing.POSTPAID,
            credit_currency=wanted.prepaid,
            alert_url=wanted.alert_url,
        )
        if wanted.prepaid != tenant.credit_currency:
            set_prepaid(tenant, wanted.prepaid, at)
        tenant.refresh_from_db()
        ceilings = [
            write_quota(wanted.limits, tenant=tenant),
            write_budget(wanted.budget, at=at, tenant=tenant),
        ]
        if before != noted.of_tenant(tenant) or any(ceilings):
            after = noted.of_tenant(tenant) | {
                "limits": wanted.limits.named,
                "budget": str(wanted.budget),
            }
            _note("save tenant", tenant.name, by, reason, at, before, after)
    return tenant


def save_project(wanted: ProjectWanted, *, by: str, reason: str, at: datetime) -> Project:
    checks.require(rules.project_problems(wanted))
    with transaction.atomic():
        tenant = active_tenant(wanted.tenant)
        project, made = Project.objects.select_for_update().get_or_create(
            tenant=tenant, name=wanted.name
        )
        restored = project.archived_at is not None
        if restored:
            Project.objects.filter(pk=project.pk).update(archived_at=None)
            project.refresh_from_db()
        ceilings = [
            write_quota(wanted.limits, project=project),
            write_budget(wanted.budget, at=at, project=project),
            write_devices(wanted.devices, project),
        ]
        if made or restored or any(ceilings):
            after = {"limits": wanted.limits.named, "budget": str(wanted.budget)}
            after["devices"] = asdict(wanted.devices)
            _note("save project", str(project), by, reason, at, None, after)
    return project


def archive_tenant(name: str, *, by: str, reason: str, at: datetime) -> None:
    """Put a tenant aside: none of its keys opens the door any more, its usage stays."""
    with transaction.atomic():
        tenant = active_tenant(name)
        Tenant.objects.filter(pk=tenant.pk).update(archived_at=at)
        _note("archive tenant", name, by, reason, at, None, None)


def archive_project(tenant: str, name: str, *, by: str, reason: str, at: datetime) -> None:
    if name == DEFAULT_PROJECT:
        raise checks.refuse("project", "every tenant keeps its default project")
    with transaction.atomic():
        project = active_project(active_tenant(tenant), name)
        Project.objects.filter(pk=project.pk).update(archived_at=at)
        _note("archive project", str(project), by, reason, at, None, None)


def create_key(
    *,
    tenant: str,
    name: str,
    project: str = DEFAULT_PROJECT,
    secret: str | None = None,
    expires_at: datetime | None = None,
    routes: list[str] | tuple[str, ...] | None = None,
    endpoints: list[str] | tuple[str, ...] | None = None,
    networks: list[str] | tuple[str, ...] = (),
    priority: str | None = None,
    by: str,
    reason: str,
    at: datetime,
) -> NewKey:
    """Make a key; its secret is in the answer and nowhere else."""
    wanted = KeyWanted(
        tenant,
        name,
        project,
        routes=None if routes is None else tuple(routes),
        expires_at=expires_at,
        endpoints=None if endpoints is None else tuple(endpoints),
        networks=tuple(networks),
        priority=priority,
    )
    checks.require(rules.key_problems(wanted))
    secret = f"weir-{secrets.token_urlsafe(SECRET_BYTES)}" if secret is None else secret
    checks.require(rules.secret_problems("secret", secret))
    with transaction.atomic():
        owner = active_tenant(tenant)
        checks.require(rules.unknown_routes(wanted.routes, _active_routes(wanted.routes)))
        _refuse_taken(secret, at, but=None)
        key = _insert(wanted, active_project(owner, project), secret)
        _note("create key", str(key), by, reason, at, None, noted.of_key(key))
    return NewKey(key.pk, secret, key.shown)


def _active_routes(names: tuple[str, ...] | None) -> set[str]:
    rows = Route.objects.filter(name__in=names or (), archived_at=None)
    return set(rows.values_list("name", flat=True))


def change_key(wanted: KeyWanted, *, by: str, reason: str, at: datetime) -> None:
    """Give an active key another project, scope, end or ceilings; its secret stays."""
    checks.require(rules.key_problems(wanted))
    with transaction.atomic():
        key = active_key(wanted.tenant, wanted.name)
        before = noted.of_key(key)
        key.project = active_project(key.tenant, wanted.project)
        scope = noted.scope(wanted)
        for field, value in scope.items():
            setattr(key, field, value)
        ceilings = [
            write_quota(wanted.limits, key=key),
            write_budget(wanted.budget, at=at, key=key),
        ]
        after = noted.of_key(key)
        if before != after or any(ceilings):
            key.save(update_fields=["project", *scope])
            after |= {"limits": wanted.limits.named, "budget": str(wanted.budget)}
            _note("change key", str(key), by, reason, at, before, after)


def rotate_key(
    tenant: str, name: str, secret: str | None = None, *, by: str, reason: str, at: datetime
) -> NewKey:
    """Give a key another secret; the old one is valid for 24 h more."""
    secret = f"weir-{secrets.token_urlsafe(SECRET_BYTES)}" if secret is None else secret
    checks.require(rules.secret_problems("secret", secret))
    with transaction.atomic():
        key = active_key(tenant, name)
        if key.digest == digest_of(secret):
            return NewKey(key.pk, secret, key.shown)
        _refuse_taken(secret, at, but=key.pk)
        before = noted.of_key(key)
        key.previous_digest, key.previous_valid_until = key.digest, at + ROTATED_VALID
        key.digest, key.shown = digest_of(secret), rules.shown(secret)
        key.save(update_fields=["digest", "shown", "previous_digest", "previous_valid_until"])
        _note("rotate key", str(key), by, reason, at, before, noted.of_key(key))
    return NewKey(key.pk, secret, key.shown)


def revoke_key(key_id: int, *, by: str, reason: str, at: datetime) -> bool:
    """End a key for ever; False if it had ended already. Gateways hear of it at commit."""
    allowed = [state for state, moves in KEY_MOVES.items() if KeyState.REVOKED in moves]
    with transaction.atomic():
        ended = Key.objects.filter(pk=key_id, state__in=allowed).update(
            state=KeyState.REVOKED, revoked_at=at, previous_digest="", previous_valid_until=None
        )
        key = Key.objects.filter(pk=key_id).select_related("tenant").first()
        if key is None:
            raise checks.unknown("key", f"there is no key {key_id}")
        if ended:
            version = _note("revoke key", str(key), by, reason, at, None, None)
            SnapshotPart.tell_revoked(key_id, version)
    return bool(ended)


def ensure_playground_key(*, by: str, reason: str, at: datetime) -> NewKey:
    """The console's own key: its secret is derived, so that every web process knows it.

    One that an operator revoked stays revoked: the playground then answers 401.
    """
    secret = derived(PLAYGROUND)
    with transaction.atomic():
        if not Tenant.objects.filter(name=OPERATORS, archived_at=None).exists():
            save_tenant(TenantWanted(OPERATORS), by=by, reason=reason, at=at)
        owner = active_tenant(OPERATORS)  # locked: two web processes may start at once
        key = Key.objects.filter(digest=digest_of(secret)).first()
        if key is None and owner.keys.filter(name=PLAYGROUND, state=KeyState.ACTIVE).exists():
            return rotate_key(OPERATORS, PLAYGROUND, secret, by=by, reason=reason, at=at)
        if key is None:
            name = {"tenant": OPERATORS, "name": PLAYGROUND, "secret": secret}
            return create_key(**name, by=by, reason=reason, at=at)
    return NewKey(key.pk, secret, key.shown)


def active_tenant(name: str) -> Tenant:
    """The tenant, locked until the transaction ends: its keys and ceilings change in turn."""
    found = Tenant.objects.select_for_update().filter(name=name, archived_at=None).first()
    if found is None:
        raise checks.unknown("tenant", f"there is no tenant {name!r}")
    return found


def active_key(tenant: str, name: str) -> Key:
    owner = active_tenant(tenant)
    found = Key.objects.filter(tenant=owner, name=name, state=KeyState.ACTIVE)
    key = found.select_related("tenant", "project").first()
    if key is None:
        raise checks.unknown("key", f"tenant {tenant!r} has no active key {name!r}")
    return key


def active_project(tenant: Tenant, name: str) -> Project:
    found = Project.objects.filter(tenant=tenant, name=name, archived_at=None).first()
    if found is None:
        raise checks.unknown("project", f"tenant {tenant.name!r} has no project {name!r}")
    return found


def _insert(wanted: KeyWanted, project: Project, secret: str) -> Key:
    try:
        with transaction.atomic():
            return Key.objects.create(
                tenant=project.tenant,
                project=project,
                name=wanted.name,
                **noted.scope(wanted),
                digest=digest_of(secret),
                shown=rules.shown(secret),
            )
    except IntegrityError:
        what = f"tenant {wanted.tenant!r} has an active key {wanted.name!r}: revoke or rotate it"
        raise checks.refuse("name", what) from None


def _refuse_taken(secret: str, at: datetime, but: int | None) -> None:
    """A secret names one key, for ever: one that was revoked never opens the door again."""
    digest = digest_of(secret)
    same = Q(digest=digest) | Q(previous_digest=digest, previous_valid_until__gt=at)
    if Key.objects.filter(same).exclude(pk=but).exists():
        raise checks.refuse("secret", "is or was the secret of another key: take another")


def _note(action, subject, by, reason, at, before, after) -> int:
    """Audit, and tell the gateways: all of this room is part of who may call."""
    record(action, subject, by=by, reason=reason, at=at, change=(before, after))
    return SnapshotPart.raise_version(Part.IDENTITIES)
