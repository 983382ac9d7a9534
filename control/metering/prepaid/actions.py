"""Credit of a tenant: opened with its first day as prepaid, topped up, drawn by stored calls."""

from collections.abc import Mapping
from datetime import datetime
from uuid import uuid4

from django.db import transaction
from django.db.models import F, QuerySet, Sum

from control import checks
from control.metering import ledger
from control.metering.ledger import PostingWanted, TransferWanted
from control.metering.prepaid import rules
from control.metering.prepaid.rules import FOR_EVER, CreditWanted
from control.metering.rules import amount_text
from control.models import (
    Account,
    BillingPeriod,
    CreditEntry,
    CreditSpan,
    Tenant,
    Transfer,
    UsageEvent,
)
from control.models.audit import record
from control.states import BudgetUnit, CreditKind, PeriodState


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
        at = max([at, *_closed_until(tenant)])  # it may have waited for a close
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


def _closed_until(tenant: Tenant) -> list[datetime]:
    """What is dated in a month that is closed would be on no invoice."""
    closed = BillingPeriod.objects.filter(tenant=tenant, state=PeriodState.CLOSED)
    return list(closed.order_by("-ends_at").values_list("ends_at", flat=True)[:1])


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
    open_now = Account.objects.filter(tenant=tenant, ends_at=FOR_EVER)
    for account in open_now.exclude(currency=currency):
        _settle(account, -_spent_since(account, at), at)
        _spans(account).filter(ends_at=FOR_EVER).update(ends_at=at)
        Account.objects.filter(pk=account.pk).update(ends_at=at)
    if not currency:
        return
    values = {"unit": BudgetUnit.CREDIT, "amount": 0, "begins_at": at, "ends_at": at}
    account, _ = Account.objects.get_or_create(tenant=tenant, currency=currency, defaults=values)
    if account.ends_at == FOR_EVER:
        return
    _spans(account).create(begins_at=at, ends_at=FOR_EVER)
    Account.objects.filter(pk=account.pk).update(ends_at=FOR_EVER)
    _settle(account, _spent_since(account, at), at)


def _spans(account: Account) -> QuerySet[CreditSpan]:
    """One that an older release made has none yet; those of no length are none."""
    if account.begins_at < account.ends_at and not account.spans.exists():
        account.spans.create(begins_at=account.begins_at, ends_at=account.ends_at)
    account.spans.filter(ends_at__lte=F("begins_at")).delete()
    return account.spans


def _spent_since(account: Account, at: datetime) -> int:
    """By calls that have begun since, and were stored before the tenant paid another way."""
    events = UsageEvent.objects.filter(
        tenant=account.tenant_id, started_at__gte=at, currency=account.currency
    )
    return int(events.aggregate(pico=Sum("amount_pico"))["pico"] or 0)


def _settle(account: Account, pico: int, at: datetime) -> None:
    if pico:
        Account.objects.filter(pk=account.pk).update(spent=F("spent") + pico)
        draw({account.pk: (account.tenant_id, account.currency)}, {account.pk: pico}, at)


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
