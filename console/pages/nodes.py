"""Nodes: machines, their devices, what is booked on them; and taking one out."""

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from console import parts
from console.access import who
from console.pages.disk import VERSIONS
from control.checks import Refused
from control.fleet.disk.rules import DEVICE_KINDS
from control.fleet.nodes import actions, rules


class LeavingForm(forms.Form):
    in_seconds = forms.FloatField(min_value=0, max_value=rules.LEAVING_SECONDS_MAX)


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    return render(request, "pages/nodes.html", parts.nodes(timezone.now()))


@require_safe
def one(request: HttpRequest, name: str) -> HttpResponse:
    context = parts.node(timezone.now(), name)
    node = context["node"]
    if node is None:
        raise Http404(f"There is no node {name}.")
    labels = ", ".join(f"{label}={value}" for label, value in sorted(node.labels.items()))
    context |= {"labels": labels, "engine_versions": VERSIONS, "device_kinds": DEVICE_KINDS}
    return render(request, "pages/node.html", context)


@require_POST
def cordon(request: HttpRequest, name: str) -> HttpResponse:
    value = request.POST.get("value") == "yes"
    answer = _carry_out(request, name, actions.cordon, value=value)
    return HttpResponse(headers={"HX-Refresh": "true"}) if request.htmx else answer


@require_POST
def drain(request: HttpRequest, name: str) -> HttpResponse:
    return _carry_out(request, name, actions.drain_node)


@require_POST
def leaving(request: HttpRequest, name: str) -> HttpResponse:
    form = LeavingForm(request.POST)
    if not form.is_valid():
        messages.error(request, f"Seconds are a number from 0 to {rules.LEAVING_SECONDS_MAX}.")
        return redirect("node", name)
    return _carry_out(request, name, actions.leave, **form.cleaned_data)


@require_POST
def describe(request: HttpRequest, name: str) -> HttpResponse:
    given = [pair.strip() for pair in request.POST.get("labels", "").split(",") if pair.strip()]
    pairs = (pair.partition("=") for pair in given)
    labels = {label.strip(): value.strip() for label, _, value in pairs}
    pool = request.POST.get("pool", "").strip()
    return _carry_out(request, name, actions.describe, pool=pool, labels=labels)


@require_POST
def remove(request: HttpRequest, name: str) -> HttpResponse:
    return _carry_out(request, name, actions.remove_node, back="nodes")


def _carry_out(
    request: HttpRequest, name: str, action, back: str = "node", **wanted
) -> HttpResponse:
    try:
        action(name, **wanted, **who(request))
    except Refused as refusal:
        messages.error(request, str(refusal))
        back = "node"
    return redirect("nodes") if back == "nodes" else redirect("node", name)
