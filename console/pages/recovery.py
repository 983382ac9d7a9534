"""Buttons for what failures taught: drop an override, try again, release a card."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.access import said, who
from console.refusals import told
from control.recovery import actions


@require_POST
def drop_override(request: HttpRequest, name: str, override_id: int) -> HttpResponse:
    return _carry_out(request, "deployment", name, actions.drop_override, override_id)


@require_POST
def retry(request: HttpRequest, name: str) -> HttpResponse:
    return _carry_out(request, "deployment", name, actions.retry)


@require_POST
def release(request: HttpRequest, name: str) -> HttpResponse:
    return _carry_out(request, "node", name, actions.release_device, said(request.POST, "device"))


@require_POST
def quarantine(request: HttpRequest, name: str) -> HttpResponse:
    uuid = said(request.POST, "device")
    return _carry_out(request, "node", name, actions.quarantine_device, uuid)


def _carry_out(request: HttpRequest, page: str, name: str, action, *wanted) -> HttpResponse:
    with told(request):
        action(name, *wanted, **who(request))
    if request.htmx:
        return HttpResponse(headers={"HX-Refresh": "true"})
    return redirect(page, name)
