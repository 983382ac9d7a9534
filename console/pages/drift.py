"""Drift: usage beside what engines counted themselves, and incidents that a person closes."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from console import parts
from console.access import said, who
from console.refusals import told
from control.metering.drift import actions


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    return render(request, "pages/drift.html", parts.drift(timezone.now()))


@require_POST
def close(request: HttpRequest, drift_id: int) -> HttpResponse:
    with told(request):
        actions.close_incident(drift_id, **who(request) | {"reason": said(request.POST, "reason")})
        messages.success(request, "The incident is closed: what you wrote is kept with it.")
    return redirect("drift")
