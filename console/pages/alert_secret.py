"""Another secret for a tenant's alerts, on the operators' page of it."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.access import who
from console.refusals import told
from control.metering.alerts import secrets


@require_POST
def rotate(request: HttpRequest, name: str) -> HttpResponse:
    with told(request):
        secrets.rotate(name, **who(request))
        messages.success(request, "Alerts are signed by another secret now: give it to the host.")
    return redirect("tenant", name)
