"""Where a deployment's replicas go: previewed, then saved."""

from functools import partial

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_POST

from console.access import who
from console.pages.one_deployment import saved, shown
from console.pages.placing_form import PlacingForm
from control.checks import Refused
from control.fleet import actions, places


@require_POST
def place(request: HttpRequest, name: str) -> HttpResponse:
    form = PlacingForm(request.POST)
    if not form.is_valid():
        return shown(request, name, placing=form)
    if "preview" in request.POST:
        return shown(request, name, placing=form, **_preview(request, name, form))
    save = partial(actions.place, name, form.wanted(), **who(request))
    return saved(request, name, save, placing=form)


def _preview(request: HttpRequest, name: str, form: PlacingForm) -> dict:
    try:
        return {"preview": places.preview_of(name, form.wanted(), at=timezone.now())}
    except Refused as refusal:
        messages.error(request, str(refusal))
        return {}
