"""Who invoices, who offers the service, where it runs: on what is issued from now on."""

from datetime import datetime

from django.db import transaction

from control import checks
from control.metering.invoices.wanted import TermsWanted, problems
from control.models import BillingTerms
from control.models.audit import record


def save_terms(wanted: TermsWanted, *, by: str, reason: str, at: datetime) -> None:
    checks.require(problems(wanted))
    values = wanted.stored
    with transaction.atomic():
        row = BillingTerms.objects.select_for_update().first()
        before = {name: getattr(row, name) for name in values} if row else None
        if before != values:
            BillingTerms.objects.update_or_create(pk=1, defaults=values)
            change = (before, values)
            record("save billing terms", wanted.issuer, by=by, reason=reason, at=at, change=change)
