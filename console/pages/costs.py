"""Costs: what device time was spent on and cost, what tokens cost therefore, and advice."""

from dataclasses import dataclass
from datetime import date, datetime

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from console.access import who
from console.days import DaysForm, span
from control.catalog.advice import facts as advice
from control.metering.cost import facts, measuring, pools

GROUPS = ("version", "model", "deployment", "tenant", "project", "day", "hour")
NAMED = {  # a version's or a project's name is one only within its owner
    "version": ("model", "version"),
    "project": ("tenant", "project"),
}


class CostForm(DaysForm):
    group = forms.ChoiceField(choices=[(name, name) for name in GROUPS], required=False)


@dataclass(frozen=True)
class Asked:
    """What the address asks for."""

    since: date
    until: date  # its last day
    group: str
    errors: dict

    @property
    def span(self) -> tuple[datetime, datetime]:
        return span(self.since, self.until)


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    at = timezone.now()
    asked = _asked(request, at)
    since, until = asked.span
    rows = facts.costs(NAMED.get(asked.group, (asked.group,)), since, until)
    context = {
        "now": at,
        "asked": asked,
        "groups": GROUPS,
        "pools": facts.costs(["pool"], since, until, device_microseconds__gt=0),
        "policies": pools.policies(until),
        "rows": rows,
        "formula": rows[0].formula if rows else "",
        "advice": advice.advice(since, until),
        "quantised": advice.quantised(until),
        "weighings": measuring.weighings(at),
        "weights": measuring.entries(),
    }
    return render(request, "pages/costs.html", context)


@require_POST
def take_over(request: HttpRequest, model: str, version: str) -> HttpResponse:
    """Weights that were measured hold from now on."""
    measuring.take_over(model, version, **who(request))
    return redirect("costs")


def _asked(request: HttpRequest, at: datetime) -> Asked:
    form = CostForm(request.GET)
    form.is_valid()
    given = {} if form.errors else form.cleaned_data
    until = given.get("until") or at.date()
    return Asked(
        since=given.get("since") or until.replace(day=1),
        until=until,
        group=given.get("group") or GROUPS[0],
        errors={field: list(errors) for field, errors in form.errors.items()},
    )
