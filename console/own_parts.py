"""Facts of one tenant → the context of a live part of its pages, and what its address asks for."""

from collections.abc import Callable, Mapping
from datetime import datetime

from django.template.loader import render_to_string

from control.checks import Refused
from control.metering import spending
from control.metering.alerts import facts as alerts
from control.metering.own import facts, rules
from control.metering.own.rules import UsageAsked
from control.metering.prepaid import facts as prepaid

ALERTS = 25


def asked(given: Mapping[str, str], tenant: str, at: datetime) -> tuple[UsageAsked, str]:
    """What an address asks for; this month, and what is wrong, if it makes no sense."""
    zone, most = facts.timezone_of(tenant), {"limit": str(rules.ROWS_MAX)}
    named = {name: text for name, text in given.items() if text and name in rules.KNOWN}
    try:
        return rules.asked(most | named, at, zone), ""
    except Refused as refusal:
        return rules.asked(most, at, zone), str(refusal)


def usage(at: datetime, tenant: str, given: Mapping[str, str]) -> dict:
    wanted, _ = asked(given, tenant, at)
    used = facts.usage(wanted, tenant)
    return {
        "now": at,
        "asked": wanted,
        "usage": used,
        "tokens_most": max((row.tokens for row in used.rows), default=0),
        "credit": prepaid.credit(tenant, at),
        "uses": spending.budgets(at, tenant),
    }


def budgets(at: datetime, tenant: str, _: Mapping[str, str]) -> dict:
    return {
        "now": at,
        "uses": spending.budgets(at, tenant),
        "credit": prepaid.credit(tenant, at),
        "entries": prepaid.entries(tenant),
        "alerts": alerts.alerts(tenant, count=ALERTS),
    }


PARTS: dict[str, Callable[[datetime, str, Mapping[str, str]], dict]] = {
    "usage": usage,
    "budgets": budgets,
}


def html(name: str, at: datetime, tenant: str, given: Mapping[str, str]) -> str:
    return render_to_string(f"parts/own_{name}.html", PARTS[name](at, tenant, given))
