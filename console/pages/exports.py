"""Exports: files of usage and of what was billed, to download now."""

from datetime import timedelta

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from control.checks import Refused
from control.metering.exports import in_thread
from control.metering.exports.focus.columns import BOTH
from control.metering.exports.orders import INVOICE, TYPES, Order, checked, chunks, name_of
from control.tenancy.facts import tenant_names

WORDS = {
    "usage": "Usage: every call, one a row",
    "focus": "FOCUS: what was billed, by day and SKU",
    "focus-schema": "FOCUS: the schema file",
}


class ExportForm(forms.Form):
    what = forms.ChoiceField(choices=list(WORDS.items()))
    month = forms.RegexField(r"^2\d{3}-\d\d$", required=False)
    tenant = forms.ChoiceField(required=False)
    format = forms.ChoiceField(choices=[("csv", "CSV"), ("parquet", "Parquet")], required=False)
    version = forms.ChoiceField(choices=[(one, one) for one in reversed(BOTH)], required=False)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        names = [(name, name) for name in tenant_names()]
        self.fields["tenant"].choices = [("", "all tenants"), *names]


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    at = timezone.now()
    last = (at.replace(day=1) - timedelta(days=1)).strftime("%Y-%m")
    form = ExportForm(initial={"month": last})
    return render(request, "pages/exports.html", {"form": form, "now": at})


@require_safe
def download(request: HttpRequest) -> HttpResponse:
    form = ExportForm(request.GET)
    if not form.is_valid():
        return render(request, "pages/exports.html", {"form": form, "now": timezone.now()})
    given = {name: value for name, value in form.cleaned_data.items() if value}
    if given["what"] == "focus-schema":
        given.pop("format", None)
    return _file(request, Order(**given), "exports")


@require_safe
def invoice(request: HttpRequest, number: str) -> HttpResponse:
    return _file(request, Order(INVOICE, number=number), "invoices")


def _file(request: HttpRequest, order: Order, back: str) -> HttpResponse:
    try:
        order = checked(order)
    except Refused as refusal:
        messages.error(request, str(refusal))
        return redirect(back)
    return StreamingHttpResponse(
        in_thread(chunks(order)),
        content_type=TYPES[order.format],
        headers={"Content-Disposition": f'attachment; filename="{name_of(order)}"'},
    )
