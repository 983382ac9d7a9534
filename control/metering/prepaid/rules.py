"""What may be added to a tenant's credit, and how that moves money (pure)."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from control import checks
from control.metering.rules import PICO
from control.states import CreditKind, LedgerAccount

REFERENCE_CHARACTERS_MAX = 64
FOR_EVER = datetime(9999, 12, 31, tzinfo=UTC)  # credit has no period


@dataclass(frozen=True)
class CreditWanted:
    """Credit that comes in, or goes back to who paid it; `reference` is asked for only once."""

    tenant: str
    amount: Decimal
    currency: str
    kind: str = CreditKind.PURCHASE
    reference: str = ""


def problems(wanted: CreditWanted) -> list[checks.Problem]:
    found = [
        *checks.amount("amount", wanted.amount),
        *checks.currency("currency", wanted.currency),
        *checks.one_of("kind", wanted.kind, CreditKind),
        *checks.text("reference", wanted.reference, REFERENCE_CHARACTERS_MAX),
    ]
    if not found and not wanted.amount:
        found.append(checks.Problem("amount", "is 0: name what comes in"))
    return found


def change_pico(wanted: CreditWanted) -> int:
    """By how much the credit grows."""
    sign = -1 if wanted.kind == CreditKind.REFUND else 1
    return sign * int(wanted.amount * PICO)


def postings_of(kind: str, change: int) -> tuple[tuple[str, int], ...]:
    """(account, pico). Debits are positive: what we owe in calls is a negative `prepaid`."""
    is_given = kind == CreditKind.GOODWILL
    against = LedgerAccount.CREDIT_EXPENSE if is_given else LedgerAccount.RECEIVABLE
    return ((against, change), (LedgerAccount.PREPAID, -change))


def draw(pico: int) -> tuple[tuple[str, int], ...]:
    """Calls were billed like all others; credit settles the bill at once."""
    return ((LedgerAccount.PREPAID, pico), (LedgerAccount.RECEIVABLE, -pico))
