"""Credit of a tenant: opened with its first day as prepaid, topped up, drawn by stored calls."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from uuid import uuid4

from django.db import transaction
from django.db.models import F, Sum

from control import checks
from control.metering import ledger
from control.metering.ledger import PostingWanted, TransferWanted
from control.metering.prepaid import rules
from control.metering.prepaid.rules import FOR_EVER, CreditWanted
from control.metering.rules import amount_text
from control.models import Account, CreditEntry, Tenant, Transfer, UsageEvent
from control.models.audit import record
from control.states import BudgetUnit, CreditKind


def add_credit(wanted: CreditWanted, *, by: str, reason: str, at: datetime) -> CreditEntry:
    """Top up, give or take back. The same reference a second time changes nothing."""
    checks.require(rules.problems(wanted))
    if not reason.strip():
        raise checks.refuse("reason", "is required: who reads the ledger wants to know why")
    change = rules.change_pico(wanted)
    with transaction.atomic():
        tenant = Tenant.objects.select_for_update().filter(name=wanted.tenant).first()
        if tenant is None:
            raise checks.unknown("tenant", f"there is no tenant {wanted.tenant!r}")
        key = f"credit:{tenant.pk}:{wanted.reference or uuid4().hex}"
        if known := CreditEntry.objects.filter(transfer__idempotency_key=key).first():
            return _same(known, wanted, change)
        account = _account(tenant, wanted)
        _change_amount(account, change)
        transfer = _post(key, tenant.pk, wanted, change, at)
        entry = CreditEntry.objects.create(
            tenant=tenant,
            account=account,
            transfer=transfer,
            kind=wanted.kind,
            currency=wanted.currency,
            amount_pico=change,
            by=by[:128],
            reason=reason,
            at=at,
        )
        after = {"amount": amount_text(change), "currency": wanted.currency, "kind": wanted.kind}
        record("add credit", tenant.name, by=by, reason=reason, at=at, change=(None, after))
    return entry


def _same(known: CreditEntry, wanted: CreditWanted, change: int) -> CreditEntry:
    if (known.kind, known.currency, known.amount_pico) == (wanted.kind, wanted.currency, change):
        return known
    raise checks.refuse("reference", f"{wanted.reference!r} names other credit: take another one")


def _account(tenant: Tenant, wanted: CreditWanted) -> Account:
    found = Account.objects.filter(tenant=tenant, currency=wanted.currency).first()
    if found is None:
        raise checks.refuse(
            "currency",
            f"tenant {tenant.name!r} has no credit in {wanted.currency}: make it prepaid in"
            " that currency first",
        )
    return found


def _change_amount(account: Account, change: int) -> None:
    """What calls hold or have spent does not go back; what comes in begins to be watched anew."""
    rows = Account.objects.filter(pk=account.pk)
    if change > 0:
        rows.update(amount=F("amount") + change, marked=F("spent"))
    elif not rows.filter(amount__gte=F("spent") + F("leased") - change).update(
        amount=F("amount") + change
    ):
        left = Account.objects.values_list("amount", "spent", "leased").get(pk=account.pk)
        free = left[0] - left[1] - left[2]
        raise checks.refuse("amount", f"only {amount_text(max(free, 0))} of the credit is free")


def _post(key: str, tenant_id: int, wanted: CreditWanted, change: int, at: datetime) -> Transfer:
    parts = rules.postings_of(wanted.kind, change)
    postings = tuple(
        PostingWanted(tenant_id, account, wanted.currency, pico) for account, pico in parts
    )
    ledger.post([TransferWanted(key, f"credit: {CreditKind(wanted.kind)}", at, postings)])
    return Transfer.objects.get(idempotency_key=key)


def set_prepaid(tenant: Tenant, currency: str, at: datetime) -> None:
    """In a transaction that holds the tenant's row: calls that begin from now on are paid for by
    credit in that currency, or by none if it is empty. What is left of credit stays."""
    accounts = Account.objects.filter(tenant=tenant)
    accounts.exclude(currency=currency).filter(ends_at=FOR_EVER).update(ends_at=at)
    if not currency:
        return
    account, made = Account.objects.get_or_create(
        tenant=tenant,
        currency=currency,
        defaults={
            "unit": BudgetUnit.CREDIT,
            "amount": 0,
            "begins_at": at,
            "ends_at": FOR_EVER,
        },
    )
    if not made:
        Account.objects.filter(pk=account.pk).update(ends_at=FOR_EVER)
        return
    # Calls that were stored before the account was there, and have begun after.
    events = UsageEvent.objects.filter(tenant=tenant, started_at__gte=at, currency=currency)
    spent = events.aggregate(pico=Sum("amount_pico"))["pico"] or Decimal(0)
    if spent:
        Account.objects.filter(pk=account.pk).update(spent=spent)
        draw({account.pk: (tenant.pk, currency)}, {account.pk: int(spent)}, at)


def draw(accounts: Mapping[int, tuple[int, str]], units: Mapping[int, int], at: datetime) -> None:
    """In the transaction that stores the calls: what they cost is paid for out of credit.

    `accounts` are those of credit: id -> (tenant, currency). Calls are stored once, so is this.
    """
    ledger.post(
        [
            TransferWanted(
                idempotency_key=f"draw:{account_id}:{uuid4().hex}",
                reason="paid for by credit",
                at=at,
                postings=tuple(
                    PostingWanted(tenant_id, name, currency, pico)
                    for name, pico in rules.draw(units[account_id])
                ),
            )
            for account_id, (tenant_id, currency) in sorted(accounts.items())
            if units.get(account_id)
        ]
    )
