"""Limits and budgets of one scope: a tenant, a project or a key."""

from dataclasses import fields
from datetime import datetime

from django.db import transaction

from control import checks
from control.models import Budget, Key, Project, Quota, SnapshotPart, Tenant
from control.models.audit import record
from control.states import KeyState, Part
from control.tenancy import rules
from control.tenancy.rules import BudgetWanted, Limits, Scope


def save_quota(scope: Scope, limits: Limits, *, by: str, reason: str, at: datetime) -> None:
    """Make the limits of one scope what is wanted; a limit left out is no limit."""
    checks.require(rules.limit_problems("limits", limits))
    with transaction.atomic():
        if write_quota(limits, **_owner(scope)):
            change = (None, limits.named)
            record("save quota", str(scope), by=by, reason=reason, at=at, change=change)
            SnapshotPart.raise_version(Part.IDENTITIES)


def save_budget(
    scope: Scope, budget: BudgetWanted | None, *, by: str, reason: str, at: datetime
) -> None:
    """Make the budget of one scope what is wanted; None takes it away."""
    checks.require(rules.budget_problems("budget", budget))
    with transaction.atomic():
        if write_budget(budget, **_owner(scope)):
            change = (None, {"budget": str(budget)})
            record("save budget", str(scope), by=by, reason=reason, at=at, change=change)
            SnapshotPart.raise_version(Part.IDENTITIES)


def write_quota(limits: Limits, **owner) -> bool:
    """In a transaction: write the limits of `tenant=`, `project=` or `key=`. True if changed."""
    wanted = {limit.name: getattr(limits, limit.name) for limit in fields(limits)}
    stored = Quota.objects.filter(**owner).first()
    now = {name: getattr(stored, name) if stored else None for name in wanted}
    if now == wanted:
        return False
    Quota.objects.update_or_create(**owner, defaults=wanted)
    return True


def write_budget(budget: BudgetWanted | None, **owner) -> bool:
    """In a transaction: write or remove the budget of one scope. True if changed."""
    stored = Budget.objects.filter(**owner).first()
    if budget is None:
        return bool(stored and stored.delete())
    wanted = {"amount": budget.amount, "currency": budget.currency, "period": budget.period}
    if stored and {name: getattr(stored, name) for name in wanted} == wanted:
        return False
    Budget.objects.update_or_create(**owner, defaults=wanted)
    return True


def _owner(scope: Scope) -> dict[str, Tenant | Project | Key]:
    tenant = Tenant.objects.select_for_update().filter(name=scope.tenant, archived_at=None).first()
    if tenant is None:
        raise checks.unknown("tenant", f"there is no tenant {scope.tenant!r}")
    if scope.key:
        found = Key.objects.filter(tenant=tenant, name=scope.key, state=KeyState.ACTIVE).first()
        return {"key": _known(found, f"tenant {tenant.name!r} has no active key {scope.key!r}")}
    if scope.project:
        found = Project.objects.filter(tenant=tenant, name=scope.project, archived_at=None).first()
        what = f"tenant {tenant.name!r} has no project {scope.project!r}"
        return {"project": _known(found, what)}
    return {"tenant": tenant}


def _known(found, what: str):
    if found is None:
        raise checks.unknown("scope", what)
    return found
