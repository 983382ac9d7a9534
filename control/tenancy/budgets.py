"""The budget of one scope, set alone: of a tenant, of a project or of a key."""

from datetime import datetime

from django.db import transaction

from control import checks
from control.models import SnapshotPart
from control.models.audit import record
from control.states import Part
from control.tenancy import rules
from control.tenancy.actions import active_key, active_project, active_tenant
from control.tenancy.rules import BudgetWanted
from control.tenancy.scope_limits import write_budget


def set_budget(
    scope: tuple[str, str, str],
    budget: BudgetWanted | None,
    *,
    by: str,
    reason: str,
    at: datetime,
) -> bool:
    """`scope` is tenant, project, key: the latter two empty, or one of them named. None removes
    it. False: it was so already."""
    tenant, project, key = scope
    if project and key:
        raise checks.refuse("key", "name a project or a key, not both")
    checks.require(rules.budget_problems("budget", budget))
    with transaction.atomic():
        owner = active_tenant(tenant)
        if project:
            of, subject = {"project": active_project(owner, project)}, f"{tenant}/{project}"
        elif key:
            of, subject = {"key": active_key(tenant, key)}, f"{tenant}/{key}"
        else:
            of, subject = {"tenant": owner}, tenant
        if not write_budget(budget, at=at, **of):
            return False
        after = {"of": next(iter(of)), "budget": str(budget) if budget else None}
        record("set budget", subject, by=by, reason=reason, at=at, change=(None, after))
        SnapshotPart.raise_version(Part.IDENTITIES)
    return True
