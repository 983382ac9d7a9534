"""Price books as they are stored, as rules see them: rows with the instant that each ends."""

from collections import defaultdict
from collections.abc import Collection

from django.db.models import Q

from control.metering.prices.rules import PriceFacts, Rows, end_of
from control.models import Price, PriceBook

FIELDS = (
    *("id", "currency", "input_pico", "cached_input_pico", "output_pico", "valid_from"),
    *("reasoning_pico", "priority", "tier_from_tokens"),
)
BOOK = ("book_id", "book__version", "book__interrupted", "book__valid_until", "book__tenant_id")
Books = dict[int | None, Rows]  # by tenant; None is everyone without one of their own


def of_versions(versions: Collection[int], tenants: Collection[int]) -> dict[int, Books]:
    """What calls answered by these versions of models cost these tenants."""
    whose = Q(book__tenant=None) | Q(book__tenant__in=tenants)
    withdrawn = Q(tenant=None) | Q(tenant__in=tenants)
    return _read("model__versions", Q(model__versions__in=versions), whose, withdrawn)


def of_models() -> dict[str, Books]:
    """All there are, by the model's name."""
    return _read("model__name", Q(), Q(), Q())


def of_model(model: str) -> Books:
    return _read("model__name", Q(model__name=model), Q(), Q()).get(model, {})


def _read(key: str, which: Q, rows: Q, withdrawals: Q) -> dict[object, Books]:
    ends: dict[tuple, list[tuple]] = defaultdict(list)
    gone = PriceBook.objects.filter(which, withdrawals, withdrawn=True)
    for of, tenant_id, begins, number in gone.values_list(
        key, "tenant_id", "valid_from", "version"
    ):
        ends[of, tenant_id].append((begins, number))
    found: dict[object, dict[int | None, list[PriceFacts]]] = defaultdict(lambda: defaultdict(list))
    stored = Price.objects.filter(which, rows).order_by("valid_from", "pk")
    for of, *values in stored.values_list(key, *FIELDS, *BOOK):
        *row, book, number, interrupted, until, tenant_id = values
        begins = row[5]
        if withdrawn := ends.get((of, tenant_id)):
            until = end_of(begins, until, number or 0, withdrawn)
        kind = (interrupted, until, book) if book else ("generated", until, 0)
        found[of][tenant_id].append(PriceFacts(*row, *kind))
    return {
        of: {tenant: tuple(rows) for tenant, rows in books.items()} for of, books in found.items()
    }
