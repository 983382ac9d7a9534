"""What of a tenant and of a key the audit holds, before and after a change."""

from control.models import Key, Tenant
from control.tenancy.rules import KeyWanted


def scope(wanted: KeyWanted) -> dict:
    """What a key may be used for: columns that may change."""
    return {
        "routes": None if wanted.routes is None else list(wanted.routes),
        "endpoints": None if wanted.endpoints is None else list(wanted.endpoints),
        "networks": list(wanted.networks),
        "priority": wanted.priority or "",
        "expires_at": wanted.expires_at,
    }


def of_tenant(tenant: Tenant) -> dict:
    return {
        "priority": tenant.priority,
        "timezone": tenant.timezone,
        "prepaid": tenant.credit_currency,
        "alert_url": tenant.alert_url,
        "archived": tenant.archived_at is not None,
    }


def of_key(key: Key) -> dict:
    return {
        "project": key.project.name,
        "shown": key.shown,
        "routes": key.routes,
        "endpoints": key.endpoints,
        "networks": key.networks,
        "priority": key.priority,
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
    }
