"""The budget of a tenant, a project or a key: the form that sets it, on the tenant's page."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.access import who
from console.refusals import told
from control.tenancy.budgets import set_budget
from control.tenancy.rules import BudgetWanted


class BudgetForm(forms.Form):
    kind = forms.ChoiceField(choices=[(one, one) for one in ("tenant", "project", "key")])
    named = forms.CharField(max_length=63, required=False)
    amount = forms.DecimalField(min_value=0, decimal_places=6, required=False)
    currency = forms.CharField(max_length=3, initial="USD", required=False)
    tokens = forms.IntegerField(min_value=0, required=False)
    period = forms.ChoiceField(choices=[("month", "month"), ("day", "day")])
    mode = forms.ChoiceField(choices=[("hard", "hard"), ("soft", "soft")])

    def wanted(self) -> BudgetWanted | None:
        """None, to remove it, where neither money nor tokens are given."""
        given = self.cleaned_data
        amount, tokens = given["amount"], given["tokens"]
        if amount is None and tokens is None:
            return None
        currency = "" if amount is None else given["currency"].upper()
        return BudgetWanted(amount, currency, given["period"], tokens, given["mode"])

    def scope(self, tenant: str) -> tuple[str, str, str]:
        kind, name = self.cleaned_data["kind"], self.cleaned_data["named"]
        return (tenant, name if kind == "project" else "", name if kind == "key" else "")

    def clean(self) -> dict:
        given = super().clean()
        if given.get("kind") in ("project", "key") and not given.get("named"):
            self.add_error("named", f"Name the {given['kind']}.")
        return given


@require_POST
def change(request: HttpRequest, name: str) -> HttpResponse:
    form = BudgetForm(request.POST)
    if not form.is_valid():
        problems = [text for errors in form.errors.values() for text in errors]
        messages.error(request, " ".join(problems))
        return redirect("tenant", name)
    with told(request):
        is_new = set_budget(form.scope(name), form.wanted(), **who(request))
        messages.success(request, "The budget is set." if is_new else "It was so already.")
    return redirect("tenant", name)
