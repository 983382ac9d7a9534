"""Budgets: what of each is used, and who was told of it."""

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from console.access import who
from console.parts import Rows, budgets
from console.refusals import told
from control.metering.alerts import actions, facts

ROWS = 25


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    page = Paginator(Rows(facts.alert_count(), facts.alerts), ROWS)
    context = budgets(timezone.now()) | {"page": page.get_page(request.GET.get("page"))}
    return render(request, "pages/budgets.html", context)


@require_POST
def seen(request: HttpRequest) -> HttpResponse:
    """One alert, or all."""
    given = request.POST.get("alert", "")
    with told(request):
        count = actions.mark_seen(int(given) if given.isdecimal() else None, **who(request))
        messages.success(request, f"{count} marked as seen.")
    return redirect("budgets")
