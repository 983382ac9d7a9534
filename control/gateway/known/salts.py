"""Salts of the engines' prefix caches: what one tenant's call left is not another's to measure."""

import functools
import hmac

from control.models.sealing import derived
from control.routes.snapshot import RouteInfo

_REMEMBERED = 65_536
_DIGITS = 32


def salt_of(tenant_id: int, route: RouteInfo) -> str:
    """One for each tenant, for good; one for all where the prompt begins as the operator says."""
    return _salt(f"route:{route.name}" if route.shared_prefix else f"tenant:{tenant_id}")


@functools.lru_cache(_REMEMBERED)
def _salt(whose: str) -> str:
    key = derived("cache-salt").encode()
    return hmac.digest(key, whose.encode(), "sha256").hex()[:_DIGITS]
