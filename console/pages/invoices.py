"""Invoices: months of tenants, closing one, what it came to; credits, and who invoices."""

from uuid import uuid4

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from console.access import who
from console.parts import Rows, periods
from console.refusals import mark, or_404, told
from control.checks import Refused
from control.metering.invoices import actions, facts
from control.metering.invoices.terms import save_terms
from control.metering.invoices.wanted import TermsWanted
from control.tenancy.facts import tenant_names

ROWS = 25


class CreditForm(forms.Form):
    tenant = forms.ChoiceField()
    amount = forms.CharField(max_length=20)
    currency = forms.CharField(max_length=3, initial="USD")
    reason = forms.CharField(max_length=300)
    token = forms.CharField(max_length=63, widget=forms.HiddenInput)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["tenant"].choices = [(name, name) for name in tenant_names()]


class TermsForm(forms.Form):
    issuer = forms.CharField(max_length=160)
    provider = forms.CharField(max_length=160, required=False)
    host = forms.CharField(max_length=160, required=False)
    region_id = forms.CharField(max_length=64, required=False)
    region_name = forms.CharField(max_length=160, required=False)
    close_after_hours = forms.IntegerField(min_value=0, required=False)


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    return _page(request, _new_credit(), TermsForm(initial=facts.terms().__dict__))


@require_safe
def one(request: HttpRequest, number: str) -> HttpResponse:
    with or_404():
        found = facts.invoice(number)
    return render(request, "pages/invoice.html", {"invoices": [found], "now": timezone.now()})


@require_safe
def preview(request: HttpRequest, period_id: int) -> HttpResponse:
    """What an open month comes to by now."""
    with or_404():
        found = facts.preview(period_id)
    return render(request, "pages/invoice.html", {"invoices": found, "now": timezone.now()})


@require_POST
def close(request: HttpRequest, tenant: str, month: str) -> HttpResponse:
    with told(request):
        issued = actions.close(facts.period_named(tenant, month), **who(request))
        names = ", ".join(invoice.number for invoice in issued) or "nothing was charged"
        messages.success(request, f"{month} of {tenant} is closed: {names}.")
    return redirect("invoices")


@require_POST
def credit(request: HttpRequest) -> HttpResponse:
    form = CreditForm(request.POST)
    if form.is_valid():
        given = form.cleaned_data
        money = (given["amount"], given["currency"].upper())
        asked = who(request) | {"reason": given["reason"]}
        try:
            actions.grant_credit(given["tenant"], money, given["token"], **asked)
        except Refused as refusal:
            mark(form, refusal)
        else:
            messages.success(request, f"{given['tenant']} is let off {' '.join(money)}.")
            return redirect("invoices")
    return _page(request, form, TermsForm(initial=facts.terms().__dict__))


@require_POST
def terms(request: HttpRequest) -> HttpResponse:
    form = TermsForm(request.POST)
    if form.is_valid():
        try:
            save_terms(TermsWanted(**form.cleaned_data), **who(request))
        except Refused as refusal:
            mark(form, refusal)
        else:
            messages.success(request, "Saved: invoices that are issued from now on name them.")
            return redirect("invoices")
    return _page(request, _new_credit(), form)


def _page(request: HttpRequest, credit_form: CreditForm, terms_form: TermsForm) -> HttpResponse:
    page = Paginator(Rows(facts.invoices_count(), lambda **span: facts.invoices("", **span)), ROWS)
    context = periods(timezone.now()) | {
        "page": page.get_page(request.GET.get("page")),
        "credit_form": credit_form,
        "terms_form": terms_form,
        "credits": facts.credits_of(count=ROWS),
    }
    return render(request, "pages/invoices.html", context)


def _new_credit() -> CreditForm:
    return CreditForm(initial={"token": uuid4().hex, "currency": "USD"})
