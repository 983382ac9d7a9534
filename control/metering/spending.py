"""What of each budget is used in its period, as pages, the API and tenants read it."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from control.metering.alerts.rules import units
from control.models import Account
from control.states import BudgetMode, BudgetUnit

ROWS_MAX = 500


@dataclass(frozen=True)
class BudgetUse:
    """Of one account: all amounts are exact decimals of its currency, or tokens."""

    tenant: str
    kind: str  # tenant, project or key
    scope: str  # of a project or key: its name
    unit: str  # a currency, or tokens
    period: str
    mode: str
    begins_at: datetime
    ends_at: datetime
    amount: str
    spent: str
    held: str
    left: str
    percent: int  # used, of what calls have cost

    @property
    def is_used_up(self) -> bool:
        return self.percent >= 100

    @property
    def is_hard(self) -> bool:
        return self.mode == BudgetMode.HARD


def budgets(
    at: datetime, tenant: str = "", *, first: int = 0, count: int = ROWS_MAX
) -> list[BudgetUse]:
    """Those whose period it is, the most used first."""
    rows = _accounts(at, tenant).select_related(
        "budget__tenant", "budget__project__tenant", "budget__key__tenant"
    )
    used = sorted((_use(row) for row in rows[:ROWS_MAX]), key=_by_use)
    return used[first : first + count]


def _by_use(use: BudgetUse) -> tuple:
    return (-use.percent, use.tenant, use.kind, use.scope, use.unit)


def _accounts(at: datetime, tenant: str) -> QuerySet[Account]:
    rows = Account.objects.filter(budget__isnull=False, begins_at__lte=at, ends_at__gt=at)
    if tenant:
        rows = rows.filter(
            Q(budget__tenant__name=tenant)
            | Q(budget__project__tenant__name=tenant)
            | Q(budget__key__tenant__name=tenant)
        )
    return rows.order_by("pk")


def _use(row: Account) -> BudgetUse:
    budget = row.budget
    kind, owner = next(
        (name, getattr(budget, name))
        for name in ("tenant", "project", "key")
        if getattr(budget, f"{name}_id") is not None
    )
    tenant = owner if kind == "tenant" else owner.tenant
    amount, spent, leased = (int(value) for value in (row.amount, row.spent, row.leased))
    return BudgetUse(
        tenant=tenant.name,
        kind=kind,
        scope="" if kind == "tenant" else owner.name,
        unit="tokens" if row.unit == BudgetUnit.TOKENS else budget.currency,
        period=budget.period,
        mode=budget.mode,
        begins_at=row.begins_at,
        ends_at=row.ends_at,
        amount=units(row.unit, amount),
        spent=units(row.unit, spent),
        held=units(row.unit, leased),
        left=units(row.unit, amount - spent - leased),
        percent=100 * spent // amount if amount else 100,
    )
