"""What gateways hold money by: budgets of scopes, and prices of models."""

from collections import defaultdict

from control.metering.rules import PriceFacts
from control.models import Budget, Price, Quota, Tenant
from control.routes.snapshot import BudgetInfo
from control.states import Billing, BudgetMode, BudgetUnit

PRICES_MAX = 8  # of one model: calls begin under one, and are settled while another is in force


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


def prices() -> dict[str, tuple[PriceFacts, ...]]:
    """By model; entries that are still to come among them."""
    found = defaultdict(list)
    fields = ("id", "currency", "input_pico", "cached_input_pico", "output_pico", "valid_from")
    rows = Price.objects.order_by("valid_from", "pk")
    for model, *values in rows.values_list("model__name", *fields):
        found[model].append(PriceFacts(*values))
    return {model: tuple(entries[-PRICES_MAX:]) for model, entries in found.items()}
