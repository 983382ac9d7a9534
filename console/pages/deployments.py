"""Deployments: which versions are wanted, what their replicas do, and what engines say."""

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from console import parts
from console.access import who
from console.pages.one_deployment import shown
from console.refusals import told
from control.fleet import actions
from control.fleet.rules import REPLICAS_MAX


class ScaleForm(forms.Form):
    replicas_min = forms.IntegerField(min_value=0, max_value=REPLICAS_MAX)
    replicas_max = forms.IntegerField(min_value=0, max_value=REPLICAS_MAX)


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    return render(request, "pages/deployments.html", parts.deployments(timezone.now()))


@require_safe
def one(request: HttpRequest, name: str) -> HttpResponse:
    return shown(request, name)


@require_safe
def replica(request: HttpRequest, replica_id: int) -> HttpResponse:
    context = parts.replica(timezone.now(), str(replica_id))
    if context["log"] is None:
        raise Http404(f"There is no replica {replica_id}.")
    return render(request, "pages/replica.html", context)


@require_POST
def scale(request: HttpRequest, name: str) -> HttpResponse:
    form = ScaleForm(request.POST)
    if not form.is_valid():
        messages.error(request, f"Replicas are whole numbers from 0 to {REPLICAS_MAX}.")
        return redirect("deployment", name)
    return _carry_out(request, name, actions.scale, **form.cleaned_data)


@require_POST
def drain(request: HttpRequest, name: str) -> HttpResponse:
    return _carry_out(request, name, actions.drain_deployment)


def _carry_out(request: HttpRequest, name: str, action, **wanted) -> HttpResponse:
    with told(request):
        action(name=name, **wanted, **who(request))
    return redirect("deployment", name)
