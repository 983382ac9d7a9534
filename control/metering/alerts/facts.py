"""Who was told of which budget, as pages, the API and the sender read it."""

from django.db.models import QuerySet

from control.metering.alerts.rules import AlertFacts
from control.models import BudgetAlert

ROWS_MAX = 200
_OWN = ("id", "amount", "spent", "tenant")
_PLAIN = tuple(name for name in AlertFacts.__dataclass_fields__ if name not in _OWN)


def alerts(tenant: str = "", *, first: int = 0, count: int = 50) -> list[AlertFacts]:
    """The newest first."""
    rows = _rows(tenant)[first : first + min(count, ROWS_MAX)]
    return [alert_of(row) for row in rows]


def alert_count(tenant: str = "") -> int:
    return _rows(tenant).count()


def unseen(count: int) -> list[AlertFacts]:
    """For a banner: those that nobody has said to have seen, the most used first."""
    rows = BudgetAlert.objects.filter(seen_at=None).select_related("tenant")
    return [alert_of(row) for row in rows.order_by("-percent", "-at")[:count]]


def _rows(tenant: str) -> QuerySet[BudgetAlert]:
    rows = BudgetAlert.objects.select_related("tenant").order_by("-at", "-percent", "-pk")
    return rows.filter(tenant__name=tenant) if tenant else rows


def alert_of(row: BudgetAlert) -> AlertFacts:
    plain = {name: getattr(row, name) for name in _PLAIN}
    amount, spent = int(row.amount - row.marked), int(row.spent - row.marked)
    return AlertFacts(id=row.pk, tenant=row.tenant.name, amount=amount, spent=spent, **plain)
