"""Incidents of the fleet: when they opened and ended, and who was told."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console import parts
from control.fleet.incidents import facts


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    shown = parts.incidents(timezone.now())
    secret = facts.secret_text() if shown["alert_url"] else ""
    return render(request, "pages/incidents.html", shown | {"alert_secret": secret})
