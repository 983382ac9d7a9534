"""What people of a tenant see: its usage, calls, budgets and invoices, and nothing else."""

from datetime import timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.contrib.auth.views import PasswordChangeView
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console import own_parts
from console.access import for_members
from console.files import file_of, streamed
from console.parts import Rows
from control.checks import Unknown
from control.metering import facts as metering
from control.metering.exports import usage_csv
from control.metering.exports.orders import Order
from control.metering.exports.rules import UsageWanted
from control.metering.exports.wanted import INVOICE
from control.metering.invoices import facts as billed
from control.metering.own import facts, rules
from control.metering.own.rules import UsageAsked

CALLS = 25


def _asked(request: HttpRequest) -> UsageAsked:
    """What the address asks for; this month, with a message, if it makes no sense."""
    found, wrong = own_parts.asked(request.GET.dict(), request.tenant, timezone.now())
    if wrong:
        messages.error(request, wrong)
    return found


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
    context = _context(request, asked) | {"groups": rules.GROUPS}
    context |= own_parts.usage(timezone.now(), request.tenant, request.GET.dict())
    return render(request, "pages/own_usage.html", context)


@for_members
@require_safe
def calls(request: HttpRequest) -> HttpResponse:
    asked = _asked(request)
    wanted = _calls_of(request, asked)
    rows = Rows(metering.events_count(wanted), lambda **span: metering.events(wanted, **span))
    page = Paginator(rows, CALLS).get_page(request.GET.get("page"))
    return render(request, "pages/own_calls.html", _context(request, asked) | {"page": page})


@for_members
@require_safe
def calls_csv(request: HttpRequest) -> StreamingHttpResponse:
    """The calls of the same filter, one a row."""
    asked = _asked(request)
    name = f"calls-{asked.first}-{asked.after - timedelta(days=1)}.csv"
    return streamed(usage_csv(_calls_of(request, asked)), name)


def _calls_of(request: HttpRequest, asked: UsageAsked) -> UsageWanted:
    return UsageWanted(
        asked.since, asked.until, tenant=request.tenant, key=asked.key, model=asked.model
    )


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
    found = _invoice(request, number)
    return render(request, "pages/own_invoice.html", {"tenant": request.tenant, "one": found})


@for_members
@require_safe
def invoice_csv(request: HttpRequest, number: str) -> StreamingHttpResponse:
    return file_of(Order(INVOICE, number=_invoice(request, number).number))


def _invoice(request: HttpRequest, number: str) -> billed.InvoiceFacts:
    """Another tenant's is as unknown as one that is not there."""
    try:
        found = billed.invoice(number)
    except Unknown:
        found = None
    if found is None or found.tenant != request.tenant:
        raise Http404(f"There is no invoice {number}.")
    return found


@for_members
@require_safe
def budgets(request: HttpRequest) -> HttpResponse:
    shown = own_parts.budgets(timezone.now(), request.tenant, {})
    return render(request, "pages/own_budgets.html", shown | {"tenant": request.tenant})


class Password(PasswordChangeView):
    template_name = "pages/own_password.html"
    success_url = "/own/"

    def form_valid(self, form):
        messages.success(self.request, "The password is changed.")
        return super().form_valid(form)


password = for_members(Password.as_view())
