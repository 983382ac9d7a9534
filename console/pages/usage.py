"""Usage: calls, tokens and charges, and what tokens cost beside utilisation and idle time."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from urllib.parse import urlencode

from django import forms
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.days import DaysForm, span
from console.files import streamed
from console.parts import Rows
from control.metering import exports, facts, watermarks
from control.metering.cost import facts as cost
from control.metering.exports import UsageWanted

ROWS = 25
GROUPS = ("model", "tenant", "day", "route", "key", "outcome")
NAMES = ("tenant", "key", "model", "route")


class UsageForm(DaysForm):
    tenant = forms.CharField(max_length=96, required=False)
    key = forms.CharField(max_length=96, required=False)
    model = forms.CharField(max_length=96, required=False)
    route = forms.CharField(max_length=96, required=False)
    group = forms.ChoiceField(choices=[(name, name) for name in GROUPS], required=False)


@dataclass(frozen=True)
class Filter:
    """What the address asks for; every link and the export carry exactly this."""

    since: date
    until: date  # its last day
    names: dict[str, str]
    group: str
    errors: dict

    @property
    def wanted(self) -> UsageWanted:
        return UsageWanted(*span(self.since, self.until), **self.names)

    @property
    def query(self) -> str:
        named = {name: value for name, value in self.names.items() if value}
        return urlencode({"since": self.since, "until": self.until, **named})


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    at = timezone.now()
    asked = _filter(request, at)
    wanted = asked.wanted
    rows, whole = facts.usage_and_whole(wanted, asked.group)
    calls = Rows(whole.calls if whole else 0, lambda **span: facts.events(wanted, **span))
    costs = cost.costs_of_versions(wanted.since, wanted.until)
    context = {
        "now": at,
        "asked": asked,
        "groups": GROUPS,
        "periods": _periods(at.date()),
        "rows": rows,
        "whole": whole,
        "stored": watermarks.stored(at),
        "behind": watermarks.behind(at),
        "tokens_most": max((row.input_tokens + row.output_tokens for row in rows), default=0),
        "costs": [one for one in costs if asked.names["model"] in ("", one.group[0])],
        "formula": costs[0].formula if costs else "",
        "prices": {price.model: price for price in facts.prices(at)},
        "refusals": facts.refusals(wanted.since, wanted.until),
        "page": Paginator(calls, ROWS).get_page(request.GET.get("page")),
    }
    return render(request, "pages/usage.html", context)


@require_safe
def export(request: HttpRequest) -> StreamingHttpResponse:
    """The calls of the same filter, one a row."""
    asked = _filter(request, timezone.now())
    name = f"weir-usage-{asked.since}-{asked.until}.csv"
    return streamed(exports.usage_csv(asked.wanted), name)


def _filter(request: HttpRequest, at: datetime) -> Filter:
    form = UsageForm(request.GET)
    form.is_valid()
    given = {} if form.errors else form.cleaned_data
    until = given.get("until") or at.date()
    since = given.get("since") or until.replace(day=1)
    return Filter(
        since=since,
        until=until,
        names={name: given.get(name) or "" for name in NAMES},
        group=given.get("group") or GROUPS[0],
        errors={field: list(errors) for field, errors in form.errors.items()},
    )


def _periods(today: date) -> list[tuple[str, date, date]]:
    month = today.replace(day=1)
    before = month - timedelta(days=1)
    return [
        ("Today", today, today),
        ("7 days", today - timedelta(days=6), today),
        ("This month", month, today),
        ("Last month", before.replace(day=1), before),
    ]
