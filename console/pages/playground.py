"""Playground: ask a route as a tenant would, and see what the answer took."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from control.routes import facts


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    context = {"routes": facts.routes(), "gateway_port": settings.WEIR_GATEWAY_PORT}
    return render(request, "pages/playground.html", context)
