"""Prices: books in force, a model's history, proposals from cost, previews before saving."""

from collections.abc import Mapping

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from console.access import said, who
from console.refusals import mark, or_404, told
from control.checks import Refused
from control.metering.prices import actions, facts, traffic
from control.metering.prices.facts import BookFacts
from control.metering.prices.preview import Preview
from control.metering.prices.proposal import MARGIN_PERCENT_MAX
from control.metering.prices.wanted import (
    CLASSES,
    PRIORITIES,
    REASON_CHARACTERS_MAX,
    ROWS_MAX,
    PriceWanted,
    price_wanted,
)
from control.states import Interrupted

BLANK_ROWS = 3
AMOUNT_CHARACTERS_MAX = 20


class RowForm(forms.Form):
    priority = forms.ChoiceField(
        choices=[("", "every other"), *((name, name) for name in PRIORITIES)], required=False
    )
    from_tokens = forms.IntegerField(min_value=0, required=False)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for name in CLASSES:
            self.fields[name] = forms.CharField(max_length=AMOUNT_CHARACTERS_MAX, required=False)
        for field in self.fields.values():
            kind = "form-select" if isinstance(field, forms.ChoiceField) else "form-control"
            field.widget.attrs["class"] = f"{kind} {kind}-sm"

    def named(self) -> dict | None:
        """None of a row that was left blank."""
        given = self.cleaned_data
        classes = {name: given[name].strip() for name in CLASSES if given.get(name, "").strip()}
        if not classes:
            return None
        return {
            "priority": given["priority"],
            "from_tokens": given["from_tokens"] or 0,
            "per_million": classes,
        }


Rows = forms.formset_factory(RowForm, extra=BLANK_ROWS, max_num=ROWS_MAX)


class BookForm(forms.Form):
    tenant = forms.CharField(max_length=63, required=False)
    currency = forms.CharField(max_length=3)
    interrupted = forms.ChoiceField(choices=[(str(one), str(one)) for one in Interrupted])
    step = forms.CharField(max_length=AMOUNT_CHARACTERS_MAX, initial="0.01")
    valid_from = forms.DateTimeField(
        required=False, widget=forms.DateTimeInput({"type": "datetime-local"})
    )
    valid_until = forms.DateTimeField(
        required=False, widget=forms.DateTimeInput({"type": "datetime-local"})
    )
    below_cost_reason = forms.CharField(max_length=REASON_CHARACTERS_MAX, required=False)

    def wanted(self, model: str, rows: Rows) -> PriceWanted:
        named = [row for row in (form.named() for form in rows) if row]
        base = [row for row in named if not (row["priority"] or row["from_tokens"])]
        first = base[0]["per_million"] if base else {}
        further = [row for row in named if not base or row is not base[0]]
        terms = {name: value for name, value in self.cleaned_data.items() if name != "currency"}
        currency = self.cleaned_data["currency"].upper()
        return price_wanted(model, currency, first, further=further, terms=terms)


class MarginForm(forms.Form):
    margin_percent = forms.IntegerField(min_value=0, max_value=MARGIN_PERCENT_MAX)


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    at = timezone.now()
    found = facts.books(at)
    without = facts.without_prices(at)
    context = {"now": at, "books": found, "without": without}
    return render(request, "pages/prices.html", context)


@require_safe
def margins(request: HttpRequest) -> HttpResponse:
    at = timezone.now()
    context = {"now": at, "rows": facts.margins(at)}
    return render(request, "pages/margins.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def one(request: HttpRequest, model: str) -> HttpResponse:
    at = timezone.now()
    with or_404():
        history = facts.history(model, at)
    held = next((book for book in history if book.state == "in force" and not book.tenant), None)
    preview = None
    if request.method == "POST":
        form, rows = BookForm(request.POST), Rows(request.POST, prefix="rows")
        done, preview = _act(request, model, form, rows)
        if done:
            return redirect("price", model)
    else:
        form, rows = _forms(held)
    asked = MarginForm(request.GET)
    percent = asked.cleaned_data["margin_percent"] if asked.is_valid() else facts.MARGIN_PERCENT
    context = {
        "now": at,
        "model": model,
        "history": history,
        "form": form,
        "rows": rows,
        "preview": preview,
        "proposal": facts.proposal(model, at, percent),
    }
    return render(request, "pages/price.html", context)


@require_http_methods(["POST"])
def withdraw(request: HttpRequest, model: str) -> HttpResponse:
    """A book ends now: of a tenant everyone's holds again, of everyone there is no price."""
    tenant = said(request.POST, "tenant")[:63]
    with told(request):
        actions.withdraw_price(model, tenant, **who(request))
        messages.success(request, "The book holds no more from now on.")
    return redirect("price", model)


def _act(
    request: HttpRequest, model: str, form: BookForm, rows: Rows
) -> tuple[bool, Preview | None]:
    """Whether it was saved; otherwise what it would change, if it can be read."""
    if not (form.is_valid() and rows.is_valid()):
        return False, None
    try:
        wanted = form.wanted(model, rows)
        if request.POST.get("do") == "save":
            actions.save_price(wanted, **who(request))
            messages.success(request, f"The prices of {wanted.name} are saved.")
            return True, None
        return False, traffic.preview(wanted, timezone.now())
    except Refused as refusal:
        mark(form, refusal)
        return False, None


def _forms(held: BookFacts | None) -> tuple[BookForm, Rows]:
    """As everyone's book is now, for the next version to start from."""
    if held is None:
        return BookForm(), Rows(prefix="rows")
    book: Mapping[str, object] = {
        "currency": held.currency,
        "interrupted": held.interrupted,
        "step": held.step,
    }
    return BookForm(initial=book), Rows(prefix="rows", initial=[vars(row) for row in held.rows])
