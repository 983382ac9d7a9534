"""Credit of a tenant: the form that tops it up, on the tenant's page."""

from uuid import uuid4

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.access import who
from console.refusals import told
from control.metering.prepaid import actions
from control.metering.prepaid.rules import REFERENCE_CHARACTERS_MAX, CreditWanted
from control.states import CreditKind
from control.tenancy import facts

KINDS = (
    (CreditKind.PURCHASE, "bought"),
    (CreditKind.GOODWILL, "given"),
    (CreditKind.REFUND, "paid back"),
)


class CreditForm(forms.Form):
    amount = forms.DecimalField(min_value=0, max_digits=20, decimal_places=6)
    kind = forms.ChoiceField(choices=[(str(kind), text) for kind, text in KINDS])
    reason = forms.CharField(max_length=500)
    # Of this form as it was shown: sent twice, it adds once.
    reference = forms.CharField(max_length=REFERENCE_CHARACTERS_MAX, widget=forms.HiddenInput)


def new_form() -> CreditForm:
    return CreditForm(initial={"reference": uuid4().hex})


@require_POST
def add(request: HttpRequest, name: str) -> HttpResponse:
    tenant = facts.tenant(name)
    if tenant is None:
        raise Http404(f"There is no tenant {name}.")
    form = CreditForm(request.POST)
    if not form.is_valid():
        problems = [text for errors in form.errors.values() for text in errors]
        messages.error(request, " ".join(problems))
        return redirect("tenant", name)
    given = dict(form.cleaned_data)
    reason = given.pop("reason")
    with told(request):
        wanted = CreditWanted(name, currency=tenant.prepaid, **given)
        actions.add_credit(wanted, **who(request) | {"reason": reason})
        messages.success(request, f"{given['amount']} {tenant.prepaid} is entered.")
    return redirect("tenant", name)
