"""What gateways hold money by: budgets of scopes, and prices of models."""

from collections import defaultdict

from control.metering.prices.books import of_models
from control.metering.prices.rules import Rows
from control.models import Budget, Quota, Tenant
from control.routes.snapshot import BudgetInfo
from control.states import Billing, BudgetMode, BudgetUnit

VERSIONS_MAX = 32  # of one book: calls begin under one, and are settled while another is in force


def budgets() -> dict[str, tuple[BudgetInfo, ...]]:
    """By scope. Of soft ones gateways hear nothing: they stop no call."""
    found: dict[str, tuple[BudgetInfo, ...]] = {}
    for row in Budget.objects.filter(mode=BudgetMode.HARD).order_by("pk"):
        scope = scope_id(row)
        found[scope] = budgets_of(row, scope)
    for id_, currency in Tenant.objects.filter(billing=Billing.PREPAID).values_list(
        "pk", "credit_currency"
    ):
        scope = f"t:{id_}"
        paid = BudgetInfo(id_, BudgetUnit.CREDIT, currency, f"prepaid credit in {currency}", scope)
        found[scope] = (*found.get(scope, ()), paid)
    return found


def scope_id(row: Quota | Budget) -> str:
    if row.tenant_id:
        return f"t:{row.tenant_id}"
    return f"p:{row.project_id}" if row.project_id else f"k:{row.key_id}"


def budgets_of(row: Budget, scope: str) -> tuple[BudgetInfo, ...]:
    stated = []
    if row.amount is not None:
        text = f"{row.amount.normalize():f} {row.currency} a {row.period}"
        stated.append((BudgetUnit.PICO, text))
    if row.tokens is not None:
        stated.append((BudgetUnit.TOKENS, f"{row.tokens} tokens a {row.period}"))
    return tuple(BudgetInfo(row.pk, unit, row.currency, text, scope) for unit, text in stated)


def prices() -> tuple[dict[str, Rows], dict[int, dict[str, Rows]]]:
    """By model, entries that are still to come among them: everyone's, and tenants' own."""
    general: dict[str, Rows] = {}
    own: dict[int, dict[str, Rows]] = defaultdict(dict)
    for model, books in of_models().items():
        for tenant_id, rows in books.items():
            kept = _latest(rows)
            if tenant_id is None:
                general[model] = kept
            else:
                own[tenant_id][model] = kept
    return general, dict(own)


def _latest(rows: Rows) -> Rows:
    versions = list(dict.fromkeys(row.book or -row.id for row in rows))
    kept = set(versions[-VERSIONS_MAX:])
    return tuple(row for row in rows if (row.book or -row.id) in kept)
