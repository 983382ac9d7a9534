"""Price books as they are stored, as rules see them: rows with the instant that each ends."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from django.db import connection

from control.metering.prices.rules import PriceFacts, Rows, end_of
from control.models import Price, PriceBook

FIELDS = (
    *("id", "currency", "input_pico", "cached_input_pico", "output_pico", "valid_from"),
    *("reasoning_pico", "priority", "tier_from_tokens"),
)
BOOK = ("book_id", "book__version", "book__interrupted", "book__valid_until", "book__tenant_id")
# In so many words, for each batch of usage asks: the ORM takes longer to say it than all else.
_OF_VERSIONS = (
    "SELECT version.id, "
    + ", ".join(f"price.{name}" for name in FIELDS)
    + ", book.id, book.version, book.interrupted, book.valid_until, book.tenant_id"
    " FROM control_price price JOIN control_version version USING (model_id)"
    " LEFT JOIN control_pricebook book ON book.id = price.book_id"
    " WHERE version.id = ANY(%s) AND (book.tenant_id IS NULL OR book.tenant_id = ANY(%s))"
    " ORDER BY price.valid_from, price.id"
)
_WITHDRAWN = (
    "SELECT version.id, book.tenant_id, book.valid_from, book.version"
    " FROM control_pricebook book JOIN control_version version USING (model_id)"
    " WHERE book.withdrawn AND version.id = ANY(%s)"
    " AND (book.tenant_id IS NULL OR book.tenant_id = ANY(%s))"
)
Books = dict[int | None, Rows]  # by tenant; None is everyone without one of their own


def of_versions(versions: Collection[int], tenants: Collection[int]) -> dict[int, Books]:
    """What calls answered by these versions of models cost these tenants."""
    of = [list(versions), list(tenants)]
    with connection.cursor() as cursor:
        cursor.execute(_WITHDRAWN, of)
        gone = cursor.fetchall()
        cursor.execute(_OF_VERSIONS, of)
        return _by_tenant(cursor.fetchall(), gone)


def of_models() -> dict[str, Books]:
    """All there are, by the model's name."""
    return _read()


def of_model(model: str) -> Books:
    return _read(model__name=model).get(model, {})


def _read(**which: str) -> dict[str, Books]:
    gone = PriceBook.objects.filter(**which, withdrawn=True)
    stored = Price.objects.filter(**which).order_by("valid_from", "pk")
    return _by_tenant(
        stored.values_list("model__name", *FIELDS, *BOOK),
        gone.values_list("model__name", "tenant_id", "valid_from", "version"),
    )


def _by_tenant(stored: Iterable[tuple], gone: Iterable[tuple]) -> dict[object, Books]:
    ends: dict[tuple, list[tuple]] = defaultdict(list)
    for of, tenant_id, begins, number in gone:
        ends[of, tenant_id].append((begins, number))
    found: dict[object, dict[int | None, list[PriceFacts]]] = defaultdict(lambda: defaultdict(list))
    for of, *values in stored:
        *row, book, number, interrupted, until, tenant_id = values
        begins = row[5]
        if withdrawn := ends.get((of, tenant_id)):
            until = end_of(begins, until, number or 0, withdrawn)
        kind = (interrupted, until, book) if book else ("generated", until, 0)
        found[of][tenant_id].append(PriceFacts(*row, *kind))
    return {
        of: {tenant: tuple(rows) for tenant, rows in books.items()} for of, books in found.items()
    }
