"""Limits and budgets of one scope: a tenant, a project or a key."""

from dataclasses import asdict, fields
from datetime import datetime

from control.metering import budgets
from control.models import Budget, Project, Quota
from control.tenancy.rules import BudgetWanted, DeviceQuota, Limits


def write_quota(limits: Limits, **owner) -> bool:
    """In a transaction: write the limits of `tenant=`, `project=` or `key=`. True if changed."""
    wanted = {limit.name: getattr(limits, limit.name) for limit in fields(limits)}
    stored = Quota.objects.filter(**owner).first()
    now = {name: getattr(stored, name) if stored else None for name in wanted}
    if now == wanted:
        return False
    Quota.objects.update_or_create(**owner, defaults=wanted)
    return True


def write_budget(budget: BudgetWanted | None, *, at: datetime, **owner) -> bool:
    """In a transaction: write or remove the budget of one scope. True if changed.

    One of another currency or period is another budget: what is spent is counted anew.
    """
    stored = Budget.objects.filter(**owner).first()
    if budget is None:
        return bool(stored and stored.delete())
    wanted = asdict(budget)
    if stored and {name: getattr(stored, name) for name in wanted} == wanted:
        return False
    if stored and (stored.currency, stored.period) != (budget.currency, budget.period):
        stored.delete()
    written, _ = Budget.objects.update_or_create(**owner, defaults=wanted)
    budgets.amend(written, at)
    return True


def write_devices(quota: DeviceQuota, project: Project) -> bool:
    """True if it changed."""
    columns = {f"devices_{name}": value for name, value in asdict(quota).items()}
    if columns == {name: getattr(project, name) for name in columns}:
        return False
    Project.objects.filter(pk=project.pk).update(**columns)
    return True
