"""How a deployment grows and shrinks: saved, or shown again with what is wrong."""

from functools import partial

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from console.access import who
from console.pages.one_deployment import saved, shown
from console.pages.scaling_form import ScalingForm, Schedules, wanted
from control.fleet import actions


@require_POST
def change(request: HttpRequest, name: str) -> HttpResponse:
    form, rows = ScalingForm(request.POST), Schedules(request.POST, prefix="schedules")
    sent = {"scaling": form, "schedules": rows}
    if not (form.is_valid() and rows.is_valid()):
        return shown(request, name, **sent)
    save = partial(actions.save_scaling, name, wanted(form, rows), **who(request))
    return saved(request, name, save, **sent)
