"""Charges → invoice lines, rounded once; whether a period may close; what a correction is. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from control import checks
from control.metering.rules import PICO, amount_text
from control.states import ChargeCategory, PeriodState, TokenClass

# Of ISO 4217; every other currency has two.
MINOR_DIGITS = {
    **dict.fromkeys(("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF"), 0),
    **dict.fromkeys(("UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}
MINOR_DIGITS_USUAL = 2
CREDIT_MAX_PICO = 10**9 * PICO
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


@dataclass(frozen=True)
class Backlog:
    """What may still be missing of a period, when it is asked to close."""

    earlier_open: datetime | None = None  # an earlier period of the tenant that is not closed
    not_stored: tuple[str, ...] = ()  # spools that hold calls of it
    open_calls: int = 0
    incidents: tuple[str, ...] = ()


def minor_digits(currency: str) -> int:
    return MINOR_DIGITS.get(currency, MINOR_DIGITS_USUAL)


def rounded(pico: int, currency: str) -> int:
    """Half up, away from zero, to what can be paid in this currency."""
    unit = PICO // 10 ** minor_digits(currency)
    whole = (2 * abs(pico) + unit) // (2 * unit) * unit
    return whole if pico >= 0 else -whole


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


def why_not_close(
    state: str, ends_at: datetime, at: datetime, backlog: Backlog
) -> list[checks.Problem]:
    """Everything that stands against it, each with what to do."""
    if state == PeriodState.CLOSED:
        return []
    found = []
    if at < ends_at:
        found.append(f"it runs until {ends_at:%Y-%m-%d %H:%M} UTC: close it then")
    if backlog.earlier_open:
        found.append(f"the one from {backlog.earlier_open:%Y-%m-%d} is not closed: close it first")
    if backlog.not_stored:
        names = ", ".join(backlog.not_stored)
        found.append(f"calls of it may wait in spools ({names}): let their gateways ship them")
    if backlog.open_calls:
        found.append(f"{backlog.open_calls} calls of it have not ended: wait until they have")
    if backlog.incidents:
        names = ", ".join(backlog.incidents)
        found.append(f"drift is not explained ({names}): close these incidents first")
    return [checks.Problem("period", what) for what in found]


def credit_pico(currency: str, amount: str) -> int:
    """A credit is paid out, so it is of whole minor units."""
    digits = minor_digits(currency)
    whole, _, part = amount.strip().partition(".")
    if not (whole.isascii() and whole.isdigit()) or (part and not part.isdigit()) or "." in part:
        raise checks.refuse("amount", f'{amount!r} is no amount: write it as in "12.50"')
    if len(part.rstrip("0")) > digits:
        raise checks.refuse("amount", f"{amount} has more than the {digits} decimals of {currency}")
    pico = int(whole) * PICO + int(part.rstrip("0").ljust(12, "0") or 0)
    if not 0 < pico <= CREDIT_MAX_PICO:
        raise checks.refuse("amount", f"{amount} is not above 0 and at most 1,000,000,000")
    return pico


def money(pico: int, currency: str) -> str:
    """What can be paid, with all its decimals: 5.50."""
    digits, text = minor_digits(currency), amount_text(pico)
    whole, _, part = text.partition(".")
    return f"{whole}.{part.ljust(digits, '0')}" if digits or part else whole
