"""Keys: create one (its secret is shown once), see when it was used, revoke it."""

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from console.access import said, who
from console.parts import Rows
from console.refusals import mark, told
from control.checks import Refused
from control.routes import facts as routes
from control.states import Priority
from control.tenancy import actions, facts
from control.tenancy.rules import DEFAULT_PROJECT, ENDPOINTS

ROWS = 50


class KeyForm(forms.Form):
    tenant = forms.ChoiceField()
    name = forms.CharField(max_length=63)
    project = forms.CharField(max_length=63, required=False)
    routes = forms.MultipleChoiceField(required=False)
    endpoints = forms.MultipleChoiceField(
        choices=[(name, name) for name in ENDPOINTS], required=False
    )
    networks = forms.CharField(max_length=4000, required=False)
    priority = forms.ChoiceField(
        choices=[("", "as its tenant"), *((name, name) for name in Priority)], required=False
    )
    expires_at = forms.DateTimeField(required=False)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["tenant"].choices = [(name, name) for name in facts.tenant_names()]
        self.fields["routes"].choices = [(name, name) for name in routes.route_names()]


@require_http_methods(["GET", "HEAD", "POST"])
def show(request: HttpRequest) -> HttpResponse:
    form = KeyForm(request.POST or None, initial={"tenant": request.GET.get("tenant")})
    new = _create(form, request) if form.is_valid() else None
    tenant = said(request.GET, "tenant")[:63]
    rows = Rows(facts.key_count(tenant), lambda **span: facts.keys(tenant, **span))
    page = Paginator(rows, ROWS).get_page(request.GET.get("page"))
    context = {"form": form, "new": new, "page": page, "tenant": tenant, "now": timezone.now()}
    response = render(request, "pages/keys.html", context)
    if new:  # the secret must not come back with the browser's history
        response.headers["Cache-Control"] = "no-store"
    return response


@require_POST
def revoke(request: HttpRequest, key_id: int) -> HttpResponse:
    with told(request):
        actions.revoke_key(key_id, **who(request))
        messages.success(request, "The key is revoked: gateways refuse it within a second.")
    return redirect("keys")


def _create(form: KeyForm, request: HttpRequest):
    wanted = form.cleaned_data
    try:
        return actions.create_key(
            tenant=wanted["tenant"],
            name=wanted["name"],
            project=wanted["project"] or DEFAULT_PROJECT,
            expires_at=wanted["expires_at"],
            routes=wanted["routes"] or None,
            endpoints=wanted["endpoints"] or None,
            networks=wanted["networks"].replace(",", " ").split(),
            priority=wanted["priority"] or None,
            **who(request),
        )
    except Refused as refusal:
        mark(form, refusal, lambda name: name.partition("[")[0])
    return None
