"""What people of a tenant see: its usage, calls, budgets and invoices, and nothing else."""

from datetime import timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.contrib.auth.views import PasswordChangeView
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.access import for_members
from console.parts import Rows
from control.checks import Refused, Unknown
from control.metering import facts as metering
from control.metering import spending
from control.metering.alerts import facts as alerts
from control.metering.exports.rules import UsageWanted
from control.metering.invoices import facts as billed
from control.metering.own import facts, rules
from control.metering.own.rules import UsageAsked
from control.metering.prepaid import facts as prepaid

CALLS = 25


def _asked(request: HttpRequest) -> UsageAsked:
    """What the address asks for; this month, with a message, if it makes no sense."""
    at, zone = timezone.now(), facts.timezone_of(request.tenant)
    given = {name: text for name, text in request.GET.items() if text and name in rules.KNOWN}
    try:
        return rules.asked({"limit": str(rules.ROWS_MAX)} | given, at, zone)
    except Refused as refusal:
        messages.error(request, str(refusal))
        return rules.asked({"limit": str(rules.ROWS_MAX)}, at, zone)


def _context(request: HttpRequest, asked: UsageAsked) -> dict:
    names = {name: getattr(asked, name) for name in ("model", "key", "project")}
    span = {"from": asked.first.isoformat(), "to": asked.after.isoformat()}
    keys, projects = facts.names(request.tenant)
    return {
        "tenant": request.tenant,
        "asked": asked,
        "last": asked.after - timedelta(days=1),
        "keys": keys,
        "projects": projects,
        "query": urlencode(span | {name: value for name, value in names.items() if value}),
        "months": _months(asked),
    }


def _months(asked: UsageAsked) -> list[str]:
    """This month of the tenant's calendar, and the eleven before it."""
    day = timezone.localtime(timezone=ZoneInfo(asked.timezone)).date().replace(day=1)
    found = []
    for _ in range(12):
        found.append(f"{day:%Y-%m}")
        day = (day - timedelta(days=1)).replace(day=1)
    return found


@for_members
@require_safe
def usage(request: HttpRequest) -> HttpResponse:
    asked = _asked(request)
    at = timezone.now()
    used = facts.usage(asked, request.tenant)
    context = _context(request, asked) | {
        "usage": used,
        "tokens_most": max((row.tokens for row in used.rows), default=0),
        "groups": rules.GROUPS,
        "credit": prepaid.credit(request.tenant, at),
        "uses": spending.budgets(at, request.tenant),
    }
    return render(request, "pages/own_usage.html", context)


@for_members
@require_safe
def calls(request: HttpRequest) -> HttpResponse:
    asked = _asked(request)
    wanted = UsageWanted(
        asked.since, asked.until, tenant=request.tenant, key=asked.key, model=asked.model
    )
    rows = Rows(metering.events_count(wanted), lambda **span: metering.events(wanted, **span))
    page = Paginator(rows, CALLS).get_page(request.GET.get("page"))
    return render(request, "pages/own_calls.html", _context(request, asked) | {"page": page})


@for_members
@require_safe
def invoices(request: HttpRequest) -> HttpResponse:
    tenant = request.tenant
    rows = Rows(billed.invoices_count(tenant), lambda **span: billed.invoices(tenant, **span))
    page = Paginator(rows, CALLS).get_page(request.GET.get("page"))
    return render(request, "pages/own_invoices.html", {"tenant": tenant, "page": page})


@for_members
@require_safe
def invoice(request: HttpRequest, number: str) -> HttpResponse:
    """Another tenant's is as unknown as one that is not there."""
    try:
        found = billed.invoice(number)
    except Unknown:
        found = None
    if found is None or found.tenant != request.tenant:
        raise Http404(f"There is no invoice {number}.")
    return render(request, "pages/own_invoice.html", {"tenant": request.tenant, "one": found})


@for_members
@require_safe
def budgets(request: HttpRequest) -> HttpResponse:
    at, tenant = timezone.now(), request.tenant
    context = {
        "tenant": tenant,
        "uses": spending.budgets(at, tenant),
        "credit": prepaid.credit(tenant, at),
        "entries": prepaid.entries(tenant),
        "alerts": alerts.alerts(tenant, count=25),
    }
    return render(request, "pages/own_budgets.html", context)


class Password(PasswordChangeView):
    template_name = "pages/own_password.html"
    success_url = "/own/"

    def form_valid(self, form):
        messages.success(self.request, "The password is changed.")
        return super().form_valid(form)


password = for_members(Password.as_view())
