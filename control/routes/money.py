"""What gateways hold money by: budgets of scopes, and prices of models."""

from collections import defaultdict

from control.metering.rules import PriceFacts
from control.models import Budget, Price
from control.routes.snapshot import BudgetInfo
from control.states import BudgetUnit

PRICES_MAX = 8  # of one model: calls begin under one, and are settled while another is in force


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
