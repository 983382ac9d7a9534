"""Tenants: who pays, their limits and budgets; create and change one."""

from dataclasses import fields

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from console.access import who
from console.pages import credit, scoped_budget
from console.parts import Rows
from console.refusals import mark
from control.checks import Refused
from control.metering import spending
from control.metering.alerts import facts as alerts
from control.metering.alerts import secrets
from control.metering.prepaid import facts as prepaid
from control.states import Priority
from control.tenancy import actions, facts
from control.tenancy.members import facts as people
from control.tenancy.rules import BudgetWanted, Limits, TenantWanted

ROWS = 50
LIMITS = tuple(field.name for field in fields(Limits))


class TenantForm(forms.Form):
    name = forms.CharField(max_length=63)
    priority = forms.ChoiceField(choices=[(name, name) for name in Priority], initial="standard")
    timezone = forms.CharField(max_length=64, initial="UTC")
    budget_amount = forms.DecimalField(min_value=0, decimal_places=6, required=False)
    budget_currency = forms.CharField(max_length=3, initial="USD", required=False)
    budget_tokens = forms.IntegerField(min_value=0, required=False)
    budget_period = forms.ChoiceField(choices=[("month", "month"), ("day", "day")])
    budget_mode = forms.ChoiceField(
        choices=[("hard", "hard"), ("soft", "soft")], initial="hard", required=False
    )
    prepaid = forms.CharField(max_length=3, required=False)
    alert_url = forms.CharField(max_length=500, required=False)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for name in LIMITS:
            self.fields[name] = forms.IntegerField(min_value=1, required=False)

    def limit_fields(self):
        return [self[name] for name in LIMITS]

    def wanted(self) -> TenantWanted:
        given = self.cleaned_data
        budget = None
        amount, tokens = given["budget_amount"], given["budget_tokens"]
        if amount is not None or tokens is not None:
            currency = "" if amount is None else given["budget_currency"].upper()
            mode = given["budget_mode"] or "hard"
            budget = BudgetWanted(amount, currency, given["budget_period"], tokens, mode)
        limits = Limits(**{name: given[name] for name in LIMITS})
        paying = {"prepaid": given["prepaid"].upper(), "alert_url": given["alert_url"]}
        whose = (given["name"], given["priority"], given["timezone"])
        return TenantWanted(*whose, limits, budget, **paying)


@require_http_methods(["GET", "HEAD", "POST"])
def show(request: HttpRequest) -> HttpResponse:
    form = TenantForm(request.POST or None)
    if form.is_valid() and facts.tenant(form.cleaned_data["name"]):
        form.add_error("name", "There is such a tenant: open it to change it.")
    if form.is_valid() and _save(form, request):
        return redirect("tenants")
    page = Paginator(Rows(facts.tenant_count(), facts.tenants), ROWS)
    context = {"form": form, "page": page.get_page(request.GET.get("page"))}
    return render(request, "pages/tenants.html", context | {"now": timezone.now()})


@require_http_methods(["GET", "HEAD", "POST"])
def one(request: HttpRequest, name: str) -> HttpResponse:
    tenant = facts.tenant(name)
    if tenant is None:
        raise Http404(f"There is no tenant {name}.")
    given = request.POST.copy()
    given["name"] = name
    form = TenantForm(given) if request.method == "POST" else TenantForm(initial=_initial(tenant))
    if form.is_bound and form.is_valid() and _save(form, request):
        return redirect("tenant", name)
    context = {
        "tenant": tenant,
        "form": form,
        "credit": prepaid.credit(name, timezone.now()),
        "entries": prepaid.entries(name),
        "credit_form": credit.new_form(),
        "members": people.members(name),
        "budget_form": scoped_budget.BudgetForm(),
        "uses": spending.budgets(timezone.now(), name),
        "alerts": alerts.alerts(name, count=10),
        "alert_secret": secrets.secret(name, timezone.now()) if tenant.alert_url else None,
    }
    return render(request, "pages/tenant.html", context)


def _save(form: TenantForm, request: HttpRequest) -> bool:
    try:
        actions.save_tenant(form.wanted(), **who(request))
    except Refused as refusal:
        mark(form, refusal, lambda name: name.removeprefix("limits.").replace("budget.", "budget_"))
        return False
    messages.success(request, f"Tenant {form.cleaned_data['name']} is saved.")
    return True


def _initial(tenant: facts.TenantFacts) -> dict:
    budget = tenant.budget
    has_money = budget is not None and budget.amount is not None
    return {
        "name": tenant.name,
        "priority": tenant.priority,
        "timezone": tenant.timezone,
        "budget_amount": f"{budget.amount.normalize():f}" if has_money else None,
        "budget_currency": budget.currency if has_money else "USD",
        "budget_tokens": budget.tokens if budget else None,
        "budget_period": budget.period if budget else "month",
        "budget_mode": budget.mode if budget else "hard",
        "prepaid": tenant.prepaid,
        "alert_url": tenant.alert_url,
        **dict(tenant.limits),
    }
