"""Exports: files of usage and of what was billed, to download now or written on a clock."""

from datetime import timedelta

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from console.access import who
from console.files import file_of
from console.refusals import mark, told
from control.checks import Refused
from control.metering.exports import schedules
from control.metering.exports.orders import Order
from control.metering.exports.wanted import (
    DESTINATION_CHARACTERS_MAX,
    FOCUS_VERSIONS,
    INVOICE,
    ScheduleWanted,
)
from control.tenancy.facts import tenant_names

WORDS = {
    "usage": "Usage: every call, one a row",
    "focus": "FOCUS: what was billed, by day and SKU",
    "costs": "Costs: what device time cost, and to whom it was allocated",
    "focus-schema": "FOCUS: the schema file",
}
TABLES = [("csv", "CSV"), ("parquet", "Parquet")]
VERSIONS = [(one, one) for one in reversed(FOCUS_VERSIONS)]


class FileForm(forms.Form):
    """Of one tenant, or of all."""

    tenant = forms.ChoiceField(required=False)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        names = [(name, name) for name in tenant_names()]
        self.fields["tenant"].choices = [("", "all tenants"), *names]


class ExportForm(FileForm):
    what = forms.ChoiceField(choices=list(WORDS.items()))
    month = forms.RegexField(r"^2\d{3}-\d\d$", required=False)
    format = forms.ChoiceField(choices=TABLES, required=False)
    version = forms.ChoiceField(choices=VERSIONS, required=False)


class ScheduleForm(FileForm):
    name = forms.CharField(max_length=63)
    what = forms.ChoiceField(choices=[("focus", "FOCUS"), ("usage", "Usage"), ("costs", "Costs")])
    format = forms.ChoiceField(choices=TABLES)
    version = forms.ChoiceField(choices=VERSIONS)
    every = forms.ChoiceField(choices=[("month", "month, once closed"), ("day", "day")])
    destination = forms.CharField(max_length=DESTINATION_CHARACTERS_MAX)


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    last = (timezone.now().replace(day=1) - timedelta(days=1)).strftime("%Y-%m")
    return _page(request, ExportForm(initial={"month": last}), ScheduleForm())


@require_POST
def save(request: HttpRequest) -> HttpResponse:
    form = ScheduleForm(request.POST)
    if form.is_valid():
        try:
            schedules.save_schedule(ScheduleWanted(**form.cleaned_data), **who(request))
        except Refused as refusal:
            mark(form, refusal)
        else:
            messages.success(request, f"{form.cleaned_data['name']} is written when it is due.")
            return redirect("exports")
    return _page(request, ExportForm(), form)


@require_POST
def remove(request: HttpRequest, name: str) -> HttpResponse:
    with told(request):
        schedules.remove_schedule(name, **who(request))
        messages.success(request, f"{name} is written no more.")
    return redirect("exports")


def _page(request: HttpRequest, form: ExportForm, schedule_form: ScheduleForm) -> HttpResponse:
    context = {
        "form": form,
        "schedule_form": schedule_form,
        "schedules": schedules.schedules(),
        "now": timezone.now(),
    }
    return render(request, "pages/exports.html", context)


@require_safe
def download(request: HttpRequest) -> HttpResponse:
    form = ExportForm(request.GET)
    if not form.is_valid():
        return _page(request, form, ScheduleForm())
    given = {name: value for name, value in form.cleaned_data.items() if value}
    if given["what"] == "focus-schema":
        given.pop("format", None)
    return _file(request, Order(**given), "exports")


@require_safe
def invoice(request: HttpRequest, number: str) -> HttpResponse:
    return _file(request, Order(INVOICE, number=number), "invoices")


def _file(request: HttpRequest, order: Order, back: str) -> HttpResponse:
    with told(request):
        return file_of(order)
    return redirect(back)
