"""New versions of price books. What was saved is never changed: calls keep the row they have."""

from dataclasses import replace
from datetime import datetime

from django.db import transaction
from django.db.models import Max

from control import checks
from control.metering.prices import stored
from control.metering.prices.judging import judge
from control.metering.prices.stored import BookVersion
from control.metering.prices.wanted import PriceWanted
from control.models import CatalogModel, Price, PriceBook, SnapshotPart, Tenant
from control.models.audit import record
from control.states import Part


def save_price(wanted: PriceWanted, *, by: str, reason: str, at: datetime) -> BookVersion:
    """A version valid from `valid_from`, or now; the one that holds then, if it is equal.

    One that asks less than its tokens cost needs a reason, which is kept with it.
    """
    begins = wanted.valid_from or at
    _ends_later(wanted, begins, at)
    with transaction.atomic():
        model, tenant = _whose(wanted)
        before = _holding(wanted, begins)
        if before and before.wanted.content == wanted.content and _begun(before, wanted):
            return before
        cost = judge(wanted, at)
        book = _store(wanted, (model, tenant), begins)
        book.created_at, book.created_by, book.reason, book.cost = at, by[:128], reason, cost
        book.save(force_insert=True)
        _store_rows(book, wanted)
        SnapshotPart.raise_version(Part.ROUTES)  # gateways hold money by it
        change = (before and told(before.wanted), told(replace(wanted, valid_from=begins)))
        record("save price", wanted.name, by=by, reason=reason, at=at, change=change)
    return _holding(wanted, begins)


def withdraw_price(
    model: str,
    tenant: str = "",
    *,
    begins: datetime | None = None,
    by: str,
    reason: str,
    at: datetime,
) -> None:
    """From an instant on the book holds no more: everyone's does, or without a tenant none."""
    begins = begins or at
    wanted = PriceWanted(model, "", (), tenant, valid_from=begins)
    _ends_later(wanted, begins, at)
    with transaction.atomic():
        found, owner = _whose(wanted)
        before = _holding(wanted, begins)
        if before is None:
            raise checks.refuse("tenant" if tenant else "model", "has no prices then")
        wanted = replace(wanted, currency=before.wanted.currency)
        book = _store(wanted, (found, owner), begins)
        book.withdrawn = True
        book.created_at, book.created_by, book.reason = at, by[:128], reason
        book.save(force_insert=True)
        SnapshotPart.raise_version(Part.ROUTES)
        record(
            "withdraw price",
            wanted.name,
            by=by,
            reason=reason,
            at=at,
            change=(told(before.wanted), {"valid_from": begins.isoformat()}),
        )


def _ends_later(wanted: PriceWanted, begins: datetime, at: datetime) -> None:
    if begins < at:
        what = f"{begins.isoformat()} is past: what was used has its price. Leave it out for now"
        raise checks.refuse("valid_from", what)
    if wanted.valid_until and wanted.valid_until <= begins:
        raise checks.refuse("valid_until", "is not after the price begins")


def _begun(before: BookVersion, wanted: PriceWanted) -> bool:
    """Asked for an instant, an equal one that began earlier holds already; so it does for now."""
    return wanted.valid_from is None or before.begins <= wanted.valid_from


def _whose(wanted: PriceWanted) -> tuple[CatalogModel, Tenant | None]:
    """Of a model one version is saved at a time."""
    model = CatalogModel.objects.select_for_update().filter(name=wanted.model).first()
    if model is None:
        raise checks.unknown("model", f"there is no model {wanted.model!r}")
    if not wanted.tenant:
        return model, None
    tenant = Tenant.objects.filter(name=wanted.tenant).first()
    if tenant is None:
        raise checks.unknown("tenant", f"there is no tenant {wanted.tenant!r}")
    return model, tenant


def _holding(wanted: PriceWanted, at: datetime) -> BookVersion | None:
    return next(iter(stored.in_force(stored.versions(wanted.model, wanted.tenant), at)), None)


def _store(
    wanted: PriceWanted, whose: tuple[CatalogModel, Tenant | None], begins: datetime
) -> PriceBook:
    model, tenant = whose
    newest = PriceBook.objects.filter(model=model, tenant=tenant).aggregate(Max("version"))
    return PriceBook(
        model=model,
        tenant=tenant,
        version=(newest["version__max"] or 0) + 1,
        currency=wanted.currency,
        interrupted=wanted.interrupted,
        step_pico=wanted.step_pico,
        valid_from=begins,
        valid_until=wanted.valid_until,
        below_cost_reason=wanted.below_cost_reason,
    )


def _store_rows(book: PriceBook, wanted: PriceWanted) -> None:
    Price.objects.bulk_create(
        Price(
            model=book.model,
            book=book,
            currency=book.currency,
            valid_from=book.valid_from,
            priority=row.priority,
            tier_from_tokens=row.tier_from_tokens,
            input_pico=row.input_pico,
            cached_input_pico=row.cached_input_pico,
            output_pico=row.output_pico,
            reasoning_pico=row.reasoning_pico,
        )
        for row in wanted.rows
    )


def told(wanted: PriceWanted) -> dict:
    """As the audit log keeps it."""
    return wanted.flat
