"""How a deployment's replicas are kept: saved, or shown again with what is wrong."""

from functools import partial

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from console.access import who
from console.pages.one_deployment import saved, shown
from console.pages.upkeep_form import UpkeepForm
from control.fleet import actions


@require_POST
def change(request: HttpRequest, name: str) -> HttpResponse:
    form = UpkeepForm(request.POST)
    if not form.is_valid():
        return shown(request, name, upkeep=form)
    save = partial(actions.save_upkeep, name, form.wanted(), **who(request))
    return saved(request, name, save, upkeep=form)
