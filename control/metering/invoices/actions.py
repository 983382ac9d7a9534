"""Closing a month, letting a tenant off a sum: each once, each in the ledger and the audit."""

from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db import transaction

from control import checks
from control.metering import ledger
from control.metering.invoices import closing, currencies, drafts, hashes, periods, rules
from control.metering.invoices.charges import calls, charges, goodwill_key
from control.metering.invoices.rules import Bill, Tally
from control.metering.ledger import PostingWanted, TransferWanted
from control.models import (
    BillingPeriod,
    BillingTerms,
    GoodwillCredit,
    Invoice,
    Tenant,
)
from control.models.audit import record
from control.states import LedgerAccount, PeriodState

BY_CLOCK = "clock"
TERMS = ("issuer", "provider", "host", "region_id", "region_name")  # as they are that day


def tick(at: datetime) -> None:
    """Open what begins, let close what has ended, and close it where the terms say so."""
    periods.open_all(at)
    ended = BillingPeriod.objects.filter(state=PeriodState.OPEN, ends_at__lte=at)
    ended.update(state=PeriodState.CLOSING, closing_at=at)
    terms = BillingTerms.objects.first()
    if terms is None or terms.close_after_hours is None:
        return
    due = at - timedelta(hours=terms.close_after_hours)
    waiting = BillingPeriod.objects.filter(state=PeriodState.CLOSING, ends_at__lte=due)
    for period in waiting.select_related("tenant").order_by("begins_at", "pk"):
        if not closing.why_not_close(period.state, period.ends_at, at, periods.backlog(period)):
            close(period, by=BY_CLOCK, reason="its time to close has come", at=at)


def close(period: BillingPeriod, *, by: str, reason: str, at: datetime) -> list[Invoice]:
    """Freeze a period and issue its invoices; a closed one is answered with those it has."""
    if period.state != PeriodState.CLOSED:
        backlog = periods.backlog(period)
        checks.require(closing.why_not_close(period.state, period.ends_at, at, backlog))
        marks = periods.marks(period.tenant)
        with transaction.atomic():
            period = BillingPeriod.objects.select_for_update().get(pk=period.pk)
            if period.state != PeriodState.CLOSED:  # nobody was first
                period.events_up_to, period.credits_up_to = marks
                _close(period, by, reason, at)
    return list(Invoice.objects.filter(period=period).order_by("currency"))


def _close(period: BillingPeriod, by: str, reason: str, at: datetime) -> None:
    span, tally = periods.span_of(period), Tally()
    drafts.begin()
    drafts.keep((charge, *tally.add(charge)) for charge in charges(span))
    bills = tally.bills(period.begins_at, period.ends_at)
    issued = [_issue(period, bill, by, at) for bill in bills]
    drafts.freeze()
    period.calls, period.unpriced_calls = calls(span)
    period.closing_at = period.closing_at or at
    period.closed_at, period.state = at, PeriodState.CLOSED
    period.rows_hash = hashes.rows_hash([(one.number, one.rows_hash) for one in issued])
    period.save()
    after = {
        "invoices": [[one.number, str(one.payable_pico)] for one in issued],
        "rows_hash": period.rows_hash,
    }
    record("close period", str(period), by=by, reason=reason, at=at, change=(None, after))


def _issue(period: BillingPeriod, bill: Bill, by: str, at: datetime) -> Invoice:
    begins = period.begins_at.astimezone(ZoneInfo(period.timezone))
    number = rules.number_of(period.tenant.name, begins, bill.currency)
    if bill.rounding_pico:
        last, key = bill.lines[-1], f"rounding:{number}"
        ledger.post([_rounding(period.tenant, bill, key, at)])
        drafts.keep([(replace(last.first, transfer=key), last.number, 1)])
    terms = BillingTerms.objects.first()
    invoice = Invoice.objects.create(
        number=number,
        period=period,
        tenant=period.tenant,
        currency=bill.currency,
        minor_digits=currencies.minor_digits(bill.currency),
        **{name: getattr(terms, name, "") for name in TERMS},
        exact_pico=bill.exact_pico,
        rounding_pico=bill.rounding_pico,
        payable_pico=bill.payable_pico,
        rows_hash=hashes.texts_hash(drafts.texts(bill.currency)),
        issued_at=at,
        by=by[:128],
    )
    drafts.store_lines(invoice, bill.lines)
    return invoice


def _rounding(tenant: Tenant, bill: Bill, key: str, at: datetime) -> TransferWanted:
    """What is owed becomes what can be paid."""
    pico = bill.rounding_pico
    return TransferWanted(
        idempotency_key=key,
        reason="rounding of an invoice",
        at=at,
        postings=(
            PostingWanted(tenant.pk, LedgerAccount.RECEIVABLE, bill.currency, pico),
            PostingWanted(tenant.pk, LedgerAccount.ROUNDING, bill.currency, -pico),
        ),
    )


def grant_credit(
    tenant_name: str, money: tuple[str, str], token: str, *, by: str, reason: str, at: datetime
) -> GoodwillCredit:
    """Let a tenant off a sum, `money` = (amount, currency), on the invoice of the open period.

    The same token grants once, however often it is asked.
    """
    amount, currency = money
    checks.require([*checks.currency("currency", currency), *_why(reason)])
    checks.require(checks.name("token", token))
    pico = currencies.credit_pico(currency, amount)
    with transaction.atomic():
        tenant = Tenant.objects.select_for_update().filter(name=tenant_name).first()
        if tenant is None:
            raise checks.unknown("tenant", f"there is no tenant {tenant_name!r}")
        credit, is_new = GoodwillCredit.objects.get_or_create(
            token=token,
            defaults={
                "tenant": tenant,
                "currency": currency,
                "amount_pico": pico,
                "reason": reason,
                "by": by[:128],
                "at": at,
            },
        )
        if not is_new:
            _same_credit(credit, tenant, (currency, pico))
            return credit
        ledger.post([_goodwill(credit, at)])
        after = {"amount": amount, "currency": currency, "token": token}
        record("grant credit", tenant.name, by=by, reason=reason, at=at, change=(None, after))
    return credit


def _why(reason: str) -> list[checks.Problem]:
    if not reason.strip():
        return [checks.Problem("reason", "is required: the tenant reads it on the invoice")]
    return checks.text("reason", reason, rules.REASON_CHARACTERS_MAX)


def _same_credit(credit: GoodwillCredit, tenant: Tenant, money: tuple[str, int]) -> None:
    if (credit.tenant_id, credit.currency, int(credit.amount_pico)) != (tenant.pk, *money):
        raise checks.refuse("token", "was used for another credit: choose a new one")


def _goodwill(credit: GoodwillCredit, at: datetime) -> TransferWanted:
    pico = int(credit.amount_pico)
    return TransferWanted(
        idempotency_key=goodwill_key(credit.token),
        reason="goodwill credit",
        at=at,
        postings=(
            PostingWanted(credit.tenant_id, LedgerAccount.CREDIT_EXPENSE, credit.currency, pico),
            PostingWanted(credit.tenant_id, LedgerAccount.RECEIVABLE, credit.currency, -pico),
        ),
    )
