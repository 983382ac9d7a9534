"""Versions of price books as they were asked for, with what was noted when they were saved."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from control.metering.prices.rules import end_of
from control.metering.prices.wanted import STEP_PICO, PriceWanted, RowWanted
from control.models import Price, PriceBook

VERSIONS_MAX = 10_000  # read at once


@dataclass(frozen=True)
class BookVersion:
    """One version, for ever; `ends` is when another instant or a withdrawal ends it, if any."""

    number: int  # 0 is a row of an older release
    wanted: PriceWanted
    begins: datetime
    ends: datetime | None
    withdrawn: bool = False
    created_at: datetime | None = None
    created_by: str = ""
    reason: str = ""
    cost: dict | None = None  # per million of each class, as known when it was saved

    @property
    def book(self) -> tuple[str, str]:
        return self.wanted.model, self.wanted.tenant

    def holds(self, at: datetime) -> bool:
        return self.begins <= at and (self.ends is None or at < self.ends)


def versions(model: str = "", tenant: str | None = None) -> list[BookVersion]:
    """Of all books, of a model's, or of one (an empty tenant is everyone's); newest first."""
    which = {"model__name": model} if model else {}
    found = _with_book(which) + _alone(which)
    found = [one for one in found if tenant is None or one.wanted.tenant == tenant]
    return sorted(found, key=lambda one: (one.begins, one.number), reverse=True)


def in_force(found: Iterable[BookVersion], at: datetime) -> list[BookVersion]:
    """The version of each book that holds at an instant, by model, everyone's first."""
    held: dict[tuple[str, str], BookVersion] = {}
    for one in found:
        if one.holds(at) and not one.withdrawn:
            held.setdefault(one.book, one)
    return [held[book] for book in sorted(held)]


def _with_book(which: dict) -> list[BookVersion]:
    rows = defaultdict(list)
    stored = Price.objects.exclude(book=None).filter(**which)
    for row in stored.order_by("priority", "tier_from_tokens"):
        rows[row.book_id].append(_row(row))
    books = list(
        PriceBook.objects.filter(**which)
        .select_related("model", "tenant")
        .order_by("-valid_from", "-pk")[:VERSIONS_MAX]
    )
    gone = defaultdict(list)
    for book in books:
        if book.withdrawn:
            gone[book.model_id, book.tenant_id].append((book.valid_from, book.version))
    return [
        _version(book, tuple(rows[book.pk]), gone[book.model_id, book.tenant_id]) for book in books
    ]


def _version(book: PriceBook, rows: tuple[RowWanted, ...], gone: list[tuple]) -> BookVersion:
    wanted = PriceWanted(
        model=book.model.name,
        currency=book.currency,
        rows=rows,
        tenant=book.tenant.name if book.tenant else "",
        interrupted=book.interrupted,
        step_pico=book.step_pico,
        valid_from=book.valid_from,
        valid_until=book.valid_until,
        below_cost_reason=book.below_cost_reason,
    )
    return BookVersion(
        number=book.version,
        wanted=wanted,
        begins=book.valid_from,
        ends=end_of(book.valid_from, book.valid_until, book.version, gone),
        withdrawn=book.withdrawn,
        created_at=book.created_at,
        created_by=book.created_by,
        reason=book.reason,
        cost=book.cost,
    )


def _alone(which: dict) -> list[BookVersion]:
    """Rows without a book, as older releases wrote them: each a version of everyone's."""
    rows = Price.objects.filter(book=None, **which).select_related("model").order_by("pk")
    gone = defaultdict(list)
    withdrawn = PriceBook.objects.filter(withdrawn=True, tenant=None, **which)
    for name, begins, number in withdrawn.values_list("model__name", "valid_from", "version"):
        gone[name].append((begins, number))
    found = []
    for row in rows:
        wanted = PriceWanted(
            row.model.name,
            row.currency,
            (_row(row),),
            step_pico=STEP_PICO,
            valid_from=row.valid_from,
        )
        ends = end_of(row.valid_from, None, 0, gone[row.model.name])
        found.append(BookVersion(0, wanted, row.valid_from, ends))
    return found


def _row(row: Price) -> RowWanted:
    return RowWanted(
        row.input_pico,
        row.cached_input_pico,
        row.output_pico,
        row.reasoning_pico,
        row.priority,
        row.tier_from_tokens,
    )
