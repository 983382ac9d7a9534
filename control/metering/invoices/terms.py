"""Who invoices, who offers the service, where it runs: on what is issued from now on."""

from dataclasses import asdict, dataclass
from datetime import datetime

from django.db import transaction

from control import checks
from control.models import BillingTerms
from control.models.audit import record

NAME_CHARACTERS_MAX = 160
HOURS_MAX = 24 * 31


@dataclass(frozen=True)
class TermsWanted:
    """What an operator asks for; the provider and the host are the issuer, unless named."""

    issuer: str
    provider: str = ""
    host: str = ""
    region_id: str = ""
    region_name: str = ""
    close_after_hours: int | None = None


def problems(wanted: TermsWanted) -> list[checks.Problem]:
    found = []
    if not wanted.issuer.strip():
        found.append(checks.Problem("issuer", "is required: who invoices?"))
    for name in ("issuer", "provider", "host", "region_id", "region_name"):
        longest = 64 if name == "region_id" else NAME_CHARACTERS_MAX
        found += checks.text(name, getattr(wanted, name), longest)
    return found + checks.whole("close_after_hours", wanted.close_after_hours, 0, HOURS_MAX)


def save_terms(wanted: TermsWanted, *, by: str, reason: str, at: datetime) -> None:
    checks.require(problems(wanted))
    values = asdict(wanted)
    for name in ("provider", "host"):
        values[name] = values[name] or wanted.issuer
    with transaction.atomic():
        row = BillingTerms.objects.select_for_update().first()
        before = {name: getattr(row, name) for name in values} if row else None
        if before != values:
            BillingTerms.objects.update_or_create(pk=1, defaults=values)
            change = (before, values)
            record("save billing terms", wanted.issuer, by=by, reason=reason, at=at, change=change)
