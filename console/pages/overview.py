"""Overview: what the platform does right now."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console import parts


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    return render(request, "pages/overview.html", parts.overview(timezone.now()))
