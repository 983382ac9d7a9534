"""The page of one deployment: its forms as it is stored, or as one of them was sent."""

from collections.abc import Callable

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from console import parts
from console.pages import placing_form, scaling_form, upkeep_form
from control.checks import Refused


def shown(request: HttpRequest, name: str, **sent: object) -> HttpResponse:
    context = parts.deployment(timezone.now(), name)
    deployment = context["deployment"]
    if deployment is None:
        raise Http404(f"There is no deployment {name}.")
    stored = {
        "placing": placing_form.form_of(deployment),
        **scaling_form.forms_of(deployment),
        "upkeep": upkeep_form.form_of(deployment),
    }
    return render(request, "pages/deployment.html", context | stored | sent)


def saved(
    request: HttpRequest, name: str, save: Callable[[], object], **sent: object
) -> HttpResponse:
    """Or shown again as it was sent, with what is wrong with it."""
    try:
        save()
    except Refused as refusal:
        messages.error(request, str(refusal))
        return shown(request, name, **sent)
    return redirect("deployment", name)
