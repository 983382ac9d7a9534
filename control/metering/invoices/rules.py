"""Charges → invoice lines, rounded once, and how each is described. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from control import checks
from control.metering.invoices.currencies import rounded
from control.states import ChargeCategory, TokenClass

REASON_CHARACTERS_MAX = 300
LINES_MAX = 100_000  # of a period, in memory while it is closed
CLASS_WORDS = {
    TokenClass.INPUT: "input tokens",
    TokenClass.CACHED_INPUT: "cached input tokens",
    TokenClass.OUTPUT: "output tokens",
    TokenClass.REASONING: "reasoning tokens",
}
ROUNDING = "Rounding"


@dataclass(frozen=True, slots=True)
class ChargeFacts:
    """A day of a SKU of one key, as the database counted it; a credit or a purchase has no SKU."""

    currency: str
    begins_at: datetime
    ends_at: datetime
    billed_pico: int
    effective_pico: int
    category: str = ChargeCategory.USAGE
    is_correction: bool = False
    kind: str = ""
    project_id: int | None = None
    project: str = ""
    key_id: int | None = None
    key: str = ""
    version_id: int | None = None
    version: str = ""
    model: str = ""
    token_class: str = ""
    priority: str = ""
    price_id: int | None = None
    unit_price_pico: int | None = None
    list_price_pico: int | None = None
    tokens: int | None = None
    calls: int | None = None
    corrects: str = ""
    transfer: str = ""
    description: str = ""

    @property
    def is_paid_ahead(self) -> bool:
        """It was billed when the credit was bought that it is paid for by."""
        return self.category == ChargeCategory.USAGE and self.billed_pico != self.effective_pico


class LineKey(NamedTuple):
    """What shares a line: one SKU of one project at one unit price."""

    order: int
    is_correction: bool
    project: str
    model: str
    token_class: str
    priority: str
    unit_price_pico: int
    is_paid_ahead: bool
    description: str


@dataclass(frozen=True)
class Line:
    """What its charges come to. They are not kept: `first` stands for them, they are alike."""

    key: LineKey
    category: str
    tokens: int | None
    effective_pico: int
    exact_pico: int
    rounded_pico: int
    first: ChargeFacts
    charges: int  # how many it sums
    number: int  # by which its tally knows it


@dataclass(frozen=True)
class Bill:
    """What one currency of a period comes to. The exact amounts and the rounding are payable."""

    currency: str
    lines: tuple[Line, ...]
    exact_pico: int
    rounding_pico: int
    payable_pico: int


@dataclass(slots=True)
class _Sum:
    number: int
    first: ChargeFacts
    charges: int = 0
    tokens: int | None = None
    effective_pico: int = 0
    exact_pico: int = 0

    def add(self, charge: ChargeFacts) -> None:
        self.charges += 1
        self.effective_pico += charge.effective_pico
        self.exact_pico += charge.billed_pico
        if charge.tokens is not None:
            self.tokens = (self.tokens or 0) + charge.tokens


class Tally:
    """Adds charges up, one after another: what it keeps grows with the lines alone."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, LineKey], _Sum] = {}

    def add(self, charge: ChargeFacts) -> tuple[int, int]:
        """(the number of its line, which of that line's charges it is, from 1)"""
        key = charge.currency, _line_key(charge)
        found = self._sums.get(key)
        if found is None:
            if len(self._sums) >= LINES_MAX:
                what = f"it has more than {LINES_MAX} lines by project and SKU: split the tenant"
                raise checks.refuse("period", what)
            found = self._sums[key] = _Sum(len(self._sums) + 1, charge)
        found.add(charge)
        return found.number, found.charges

    def bills(self, begins_at: datetime, ends_at: datetime) -> list[Bill]:
        """One for each currency that anything was charged in."""
        of_currency: dict[str, list[Line]] = {}
        for (currency, key), found in sorted(self._sums.items(), key=lambda item: item[0]):
            of_currency.setdefault(currency, []).append(_line(key, found, currency))
        numbers = range(len(self._sums) + 1, len(self._sums) + len(of_currency) + 1)
        return [
            _bill(currency, lines, (begins_at, ends_at), number)
            for (currency, lines), number in zip(of_currency.items(), numbers, strict=True)
        ]


def bills(charges: Iterable[ChargeFacts], begins_at: datetime, ends_at: datetime) -> list[Bill]:
    tally = Tally()
    for charge in charges:
        tally.add(charge)
    return tally.bills(begins_at, ends_at)


def _bill(currency: str, lines: list[Line], span: tuple[datetime, datetime], number: int) -> Bill:
    exact = sum(line.exact_pico for line in lines)
    payable = sum(line.rounded_pico for line in lines)
    if payable != exact:
        lines = [*lines, _rounding_line(currency, payable - exact, span, number)]
    return Bill(currency, tuple(lines), exact, payable - exact, payable)


_ORDER = (
    ChargeCategory.USAGE,
    ChargeCategory.PURCHASE,
    ChargeCategory.CREDIT,
    ChargeCategory.ADJUSTMENT,
)


def _line_key(charge: ChargeFacts) -> LineKey:
    return LineKey(
        order=_ORDER.index(ChargeCategory(charge.category)),
        is_correction=charge.is_correction,
        project=charge.project,
        model=charge.model,
        token_class=charge.token_class,
        priority=charge.priority,
        unit_price_pico=-1 if charge.unit_price_pico is None else charge.unit_price_pico,
        is_paid_ahead=charge.is_paid_ahead,
        description="" if charge.model else charge.description,
    )


def _line(key: LineKey, found: _Sum, currency: str) -> Line:
    return Line(
        key=key,
        category=found.first.category,
        tokens=found.tokens,
        effective_pico=found.effective_pico,
        exact_pico=found.exact_pico,
        rounded_pico=rounded(found.exact_pico, currency),
        first=found.first,
        charges=found.charges,
        number=found.number,
    )


def _rounding_line(currency: str, pico: int, span: tuple[datetime, datetime], number: int) -> Line:
    """Its exact amount is what all roundings came to; itself it adds nothing to what is payable."""
    charge = ChargeFacts(
        currency,
        *span,
        billed_pico=pico,
        effective_pico=pico,
        category=ChargeCategory.ADJUSTMENT,
        description=ROUNDING,
    )
    return Line(_line_key(charge), charge.category, None, pico, pico, 0, charge, 1, number)


def sku(model: str, token_class: str, priority: str) -> str:
    return ".".join(part for part in (model, token_class, priority) if part)


def described(charge: ChargeFacts) -> str:
    """`llama-3.1-8b input tokens, standard`, or what a row without a SKU is."""
    if not charge.model:
        return charge.description
    words = f"{charge.model} {CLASS_WORDS[TokenClass(charge.token_class)]}, {charge.priority}"
    words += ", paid ahead" if charge.is_paid_ahead else ""
    if not charge.is_correction:
        return words
    return f"{words}: {'reversal' if (charge.tokens or 0) < 0 else 'corrected or late'}"


def number_of(tenant: str, begins_at: datetime, currency: str) -> str:
    """`begins_at` is in the tenant's zone; the same period always has the same number."""
    return f"{tenant}-{begins_at:%Y-%m-%d}-{currency}"
