"""By which secret a tenant's receiver knows our alerts; rotated, two of them hold for a day."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from control import checks
from control.models import Tenant
from control.models.audit import record
from control.models.sealing import digest_of
from control.webhooks.rules import secret_text

OVERLAP = timedelta(hours=24)  # as of a key that is rotated


@dataclass(frozen=True)
class AlertSecret:
    """As receivers enter it (standardwebhooks.com)."""

    text: str
    previous_until: datetime | None  # until then the one before signs too


def secret(tenant: str, at: datetime) -> AlertSecret | None:
    """None, if there is no such tenant."""
    row = Tenant.objects.filter(name=tenant).first()
    return None if row is None else _told(row, at)


def valid(tenant: Tenant, at: datetime) -> tuple[bytes, ...]:
    """What signs now, the newest first."""
    numbers = [tenant.alert_secret_number]
    if _overlaps(tenant, at):
        numbers.append(tenant.alert_secret_number - 1)
    return tuple(_derived(tenant.pk, number) for number in numbers)


def rotate(tenant: str, *, by: str, reason: str, at: datetime) -> AlertSecret:
    """Another from now on. The one before signs too for a day; one before that no more."""
    with transaction.atomic():
        row = Tenant.objects.select_for_update().filter(name=tenant).first()
        if row is None:
            raise checks.unknown("tenant", f"there is no tenant {tenant!r}")
        if not row.alert_url:
            raise checks.refuse("alert_url", f"{tenant} has none: name where its alerts go first")
        row.alert_secret_number += 1
        row.alert_secret_until = at + OVERLAP
        row.save(update_fields=["alert_secret_number", "alert_secret_until"])
        until = row.alert_secret_until.isoformat()
        change = (None, {"number": row.alert_secret_number, "previous_until": until})
        record("rotate alert secret", tenant, by=by, reason=reason, at=at, change=change)
    return _told(row, at)


def _told(row: Tenant, at: datetime) -> AlertSecret:
    until = row.alert_secret_until if _overlaps(row, at) else None
    return AlertSecret(secret_text(_derived(row.pk, row.alert_secret_number)), until)


def _overlaps(row: Tenant, at: datetime) -> bool:
    return row.alert_secret_until is not None and at < row.alert_secret_until


def _derived(tenant_id: int, number: int) -> bytes:
    """Known wherever WEIR_SECRET is, stored nowhere."""
    which = f":{number}" if number else ""
    return bytes.fromhex(digest_of(f"derived:alerts:{tenant_id}{which}"))
