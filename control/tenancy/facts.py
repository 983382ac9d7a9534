"""Who pays and with which key, as pages and the status command read it; and who did what."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import F

from control.models import QUOTA_FIELDS, AuditEntry, Budget, Key, Project, Quota, Tenant
from control.states import KeyState

ROWS_MAX = 1000  # of one list; more is reached by paging


@dataclass(frozen=True)
class BudgetFacts:
    amount: Decimal | None
    currency: str
    period: str
    tokens: int | None
    mode: str = "hard"


@dataclass(frozen=True)
class ProjectFacts:
    name: str
    limits: tuple[tuple[str, int], ...]
    budget: BudgetFacts | None
    devices_guaranteed: int = 0
    devices_maximum: int | None = None


@dataclass(frozen=True)
class TenantFacts:
    name: str
    priority: str
    timezone: str
    created_at: datetime
    archived_at: datetime | None
    limits: tuple[tuple[str, int], ...]
    budget: BudgetFacts | None
    projects: tuple[ProjectFacts, ...]
    keys_active: int
    prepaid: str = ""  # the currency of its credit; empty: it pays later
    alert_url: str = ""


@dataclass(frozen=True)
class KeyFacts:
    id: int
    tenant: str
    project: str
    name: str
    shown: str
    state: str
    routes: tuple[str, ...] | None  # None is every route
    endpoints: tuple[str, ...] | None  # None is every endpoint
    networks: tuple[str, ...]  # none named is anywhere
    priority: str  # empty is its tenant's
    limits: tuple[tuple[str, int], ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    old_secret_until: datetime | None  # after a rotation both secrets work until then


@dataclass(frozen=True)
class AuditFacts:
    at: datetime
    by: str
    action: str
    subject: str
    reason: str
    before: object
    after: object


def tenants(
    *, name: str | None = None, archived: bool = True, first: int = 0, count: int = ROWS_MAX
) -> list[TenantFacts]:
    rows = Tenant.objects.order_by(F("archived_at").asc(nulls_first=True), "name")
    if name is not None:
        rows = rows.filter(name=name)
    if not archived:
        rows = rows.filter(archived_at=None)
    found = list(rows[first : first + min(count, ROWS_MAX)])
    ids = [tenant.pk for tenant in found]
    projects = defaultdict(list)
    for project in Project.objects.filter(tenant__in=ids, archived_at=None).order_by("name"):
        projects[project.tenant_id].append(project)
    project_ids = [project.pk for rows in projects.values() for project in rows]
    limits = _limits(tenant__in=ids) | _limits(project__in=project_ids)
    budgets = _budgets(tenant__in=ids) | _budgets(project__in=project_ids)
    active = Key.objects.filter(tenant__in=ids, state=KeyState.ACTIVE)
    keys_active = Counter(active.values_list("tenant_id", flat=True))
    return [
        TenantFacts(
            name=tenant.name,
            priority=tenant.priority,
            timezone=tenant.timezone,
            created_at=tenant.created_at,
            archived_at=tenant.archived_at,
            limits=limits.get(("tenant", tenant.pk), ()),
            budget=budgets.get(("tenant", tenant.pk)),
            projects=tuple(
                ProjectFacts(
                    name=project.name,
                    limits=limits.get(("project", project.pk), ()),
                    budget=budgets.get(("project", project.pk)),
                    devices_guaranteed=project.devices_guaranteed,
                    devices_maximum=project.devices_maximum,
                )
                for project in projects[tenant.pk]
            ),
            keys_active=keys_active[tenant.pk],
            prepaid=tenant.credit_currency,
            alert_url=tenant.alert_url,
        )
        for tenant in found
    ]


def tenant(name: str) -> TenantFacts | None:
    return next(iter(tenants(name=name, count=1)), None)


def tenant_names() -> list[str]:
    """Those that may get keys, for a choice."""
    rows = Tenant.objects.filter(archived_at=None).order_by("name")
    return list(rows.values_list("name", flat=True)[:ROWS_MAX])


def tenant_count() -> int:
    return Tenant.objects.count()


def keys(tenant: str | None = None, *, first: int = 0, count: int = ROWS_MAX) -> list[KeyFacts]:
    """Active keys first, the newest of them on top; revoked ones stay visible after them."""
    rows = Key.objects.select_related("tenant", "project").order_by("state", "-pk")
    if tenant:
        rows = rows.filter(tenant__name=tenant)
    found = list(rows[first : first + min(count, ROWS_MAX)])
    limits = _limits(key__in=[key.pk for key in found])
    return [
        KeyFacts(
            id=key.pk,
            tenant=key.tenant.name,
            project=key.project.name,
            name=key.name,
            shown=key.shown,
            state=key.state,
            routes=None if key.routes is None else tuple(key.routes),
            endpoints=None if key.endpoints is None else tuple(key.endpoints),
            networks=tuple(key.networks),
            priority=key.priority,
            limits=limits.get(("key", key.pk), ()),
            created_at=key.created_at,
            expires_at=key.expires_at,
            revoked_at=key.revoked_at,
            last_used_at=key.last_used_at,
            old_secret_until=key.previous_valid_until,
        )
        for key in found
    ]


def key_count(tenant: str | None = None) -> int:
    rows = Key.objects.filter(tenant__name=tenant) if tenant else Key.objects
    return rows.count()


def audit(*, subject: str = "", first: int = 0, count: int = 50) -> list[AuditFacts]:
    """The newest first; `subject` keeps entries whose subject contains it."""
    rows = AuditEntry.objects.filter(subject__icontains=subject).order_by("-at", "-pk")
    return [
        AuditFacts(
            at=row.at,
            by=row.by,
            action=row.action,
            subject=row.subject,
            reason=row.reason,
            before=row.before,
            after=row.after,
        )
        for row in rows[first : first + min(count, ROWS_MAX)]
    ]


def audit_count(*, subject: str = "") -> int:
    return AuditEntry.objects.filter(subject__icontains=subject).count()


def _limits(**scope) -> dict[tuple[str, int], tuple[tuple[str, int], ...]]:
    """(scope kind, id) → the limits it names."""
    return {
        _scope(quota): tuple(
            (field, getattr(quota, field))
            for field in QUOTA_FIELDS
            if getattr(quota, field) is not None
        )
        for quota in Quota.objects.filter(**scope)
    }


def _budgets(**scope) -> dict[tuple[str, int], BudgetFacts]:
    return {
        _scope(budget): BudgetFacts(
            budget.amount, budget.currency, budget.period, budget.tokens, budget.mode
        )
        for budget in Budget.objects.filter(**scope)
    }


def _scope(row: Quota | Budget) -> tuple[str, int]:
    for kind in ("tenant", "project", "key"):
        if (pk := getattr(row, f"{kind}_id")) is not None:
            return kind, pk
    raise ValueError(f"{row} has no scope")
