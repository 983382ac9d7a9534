"""Audit: who did what, when and why."""

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.access import said
from console.parts import Rows
from control.tenancy import facts

ROWS = 50


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    subject = said(request.GET, "subject")[:160]
    rows = Rows(
        facts.audit_count(subject=subject), lambda **span: facts.audit(subject=subject, **span)
    )
    page = Paginator(rows, ROWS).get_page(request.GET.get("page"))
    context = {"page": page, "subject": subject, "now": timezone.now()}
    return render(request, "pages/audit.html", context)
