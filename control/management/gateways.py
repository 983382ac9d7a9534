"""What operators set for gateways, judged before anything listens."""

import ipaddress
from dataclasses import fields, replace

from django.conf import settings
from django.core.management.base import CommandError

from control.gateway.limits import Limits


def limits_given() -> Limits:
    proxies = _networks(settings.WEIR_TRUSTED_PROXIES)
    return replace(_limits(settings.WEIR_GATEWAY_LIMITS), trusted_proxies=proxies)


def _limits(given: dict) -> Limits:
    known = {field.name for field in fields(Limits)}
    for name, value in given.items():
        if name not in known:
            raise CommandError(
                f"WEIR_GATEWAY_LIMITS names {name!r}: control/gateway/limits.py has all there are"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise CommandError(f"WEIR_GATEWAY_LIMITS: {name} is {value!r}: a number is wanted")
    return Limits(**given)


def _networks(given: list[str]) -> tuple[str, ...]:
    for name in given:
        try:
            ipaddress.ip_network(name)
        except ValueError:
            raise CommandError(
                f"WEIR_TRUSTED_PROXIES names {name!r}: addresses or networks are wanted, such as"
                " 10.0.0.0/24"
            ) from None
    return tuple(given)
