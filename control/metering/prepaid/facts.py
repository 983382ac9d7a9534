"""What a tenant has left of what it paid ahead, and how that came about."""

from dataclasses import dataclass
from datetime import datetime

from control.metering import ledger
from control.metering.rules import amount_text
from control.models import Account, CreditEntry, Tenant
from control.states import LedgerAccount

ENTRIES_MAX = 200


@dataclass(frozen=True)
class CreditFacts:
    """Amounts are exact decimals. balance = bought - spent; free = balance - held by calls."""

    currency: str
    balance: str
    held: str
    free: str
    spent: str
    is_used_up: bool
    is_open: bool  # the tenant's calls are paid for by it


@dataclass(frozen=True)
class EntryFacts:
    at: datetime
    kind: str
    amount: str
    currency: str
    by: str
    reason: str


@dataclass(frozen=True)
class AccountFacts:
    """Of the ledger; debits are positive, and all of a currency sum to zero."""

    name: str
    currency: str
    balance: str


def credit(tenant: str, at: datetime) -> list[CreditFacts]:
    """One for each currency, the one in use first."""
    rows = Account.objects.filter(tenant__name=tenant).order_by("-ends_at", "currency")
    return [
        CreditFacts(
            currency=row.currency,
            balance=amount_text(row.amount - row.spent),
            held=amount_text(row.leased),
            free=amount_text(row.amount - row.spent - row.leased),
            spent=amount_text(row.spent),
            is_used_up=row.amount <= row.spent,
            is_open=row.ends_at > at,
        )
        for row in rows
    ]


def entries(tenant: str, *, first: int = 0, count: int = 50) -> list[EntryFacts]:
    """The newest first."""
    rows = CreditEntry.objects.filter(tenant__name=tenant).order_by("-at", "-pk")
    return [
        EntryFacts(row.at, row.kind, amount_text(row.amount_pico), row.currency, row.by, row.reason)
        for row in rows[first : first + min(count, ENTRIES_MAX)]
    ]


def accounts(tenant: str) -> list[AccountFacts]:
    """Those that anything was ever posted to, or is held in."""
    return [
        AccountFacts(name, currency, amount_text(pico))
        for owner in Tenant.objects.filter(name=tenant)
        for (name, currency), pico in sorted(balances(owner.pk).items())
    ]


def balances(tenant_id: int) -> dict[tuple[str, str], int]:
    """(account, currency) -> pico, debits positive. What gateways hold is not posted: a lease is
    given back within seconds. It is told as `held`, out of what is posted as `prepaid`."""
    found = ledger.balances(tenant_id)
    for account in Account.objects.filter(tenant_id=tenant_id, leased__gt=0):
        held = int(account.leased)
        prepaid = (LedgerAccount.PREPAID, account.currency)
        found[LedgerAccount.HELD, account.currency] = -held
        found[prepaid] = found.get(prepaid, 0) + held
    return found
