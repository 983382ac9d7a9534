"""Nodes: machines, their devices, what is booked on them; cordon and uncordon."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from console import parts
from console.access import who
from control.checks import Refused
from control.fleet import actions


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    return render(request, "pages/nodes.html", parts.nodes(timezone.now()))


@require_POST
def cordon(request: HttpRequest, name: str) -> HttpResponse:
    value = request.POST.get("value") == "yes"
    try:
        actions.cordon(node=name, value=value, **who(request))
    except Refused as refusal:
        messages.error(request, str(refusal))
    if request.htmx:
        return HttpResponse(headers={"HX-Refresh": "true"})
    return redirect("nodes")
