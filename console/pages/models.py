"""Models: the catalogue, its immutable versions, and the routes that lead to them."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from console import parts
from console.access import said, who
from console.refusals import told
from control.fleet.disk import actions


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    return render(request, "pages/models.html", parts.models(timezone.now()))


@require_safe
def route(request: HttpRequest, name: str) -> HttpResponse:
    context = parts.route(timezone.now(), name)
    if context["route"] is None:
        raise Http404(f"There is no route {name}.")
    return render(request, "pages/route.html", context)


@require_safe
def one(request: HttpRequest, name: str) -> HttpResponse:
    context = parts.model(timezone.now(), name)
    if context is None:
        raise Http404(f"There is no model {name}.")
    return render(request, "pages/model.html", context)


@require_POST
def prefetch(request: HttpRequest, name: str) -> HttpResponse:
    """Every node is asked for the weights of a version, before a launch needs them."""
    with told(request):
        asked = actions.prefetch(name, said(request.POST, "version"), **who(request))
        messages.success(
            request, f"Asked of {len(asked)} nodes: " + ", ".join(a.node for a in asked)
        )
    return redirect("model", name)
