"""Traces: calls that failed, were slow or refused, and why."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from console.access import said
from console.refusals import or_404
from control.metering import kept
from control.metering.kept import KeptWanted

CHARACTERS_MAX = 96


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    if call := _given(request, "call"):
        return redirect("trace", call_id=call)
    asked = KeptWanted(*(_given(request, name) for name in ("kept", "code", "route")))
    context = {"asked": asked, "reasons": kept.REASONS, "rows": kept.newest(asked)}
    return render(request, "pages/traces.html", context | {"most": kept.ROWS_MAX})


@require_safe
def one(request: HttpRequest, call_id: str) -> HttpResponse:
    with or_404():
        return render(request, "pages/trace.html", {"call": kept.one(call_id)})


def _given(request: HttpRequest, name: str) -> str:
    return said(request.GET, name)[:CHARACTERS_MAX]
