"""What control refuses, told on a page: as a message, at the fields of a form, or as 404."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.contrib import messages
from django.forms import Form
from django.http import Http404, HttpRequest

from control.checks import Refused, Unknown


@contextmanager
def told(request: HttpRequest) -> Iterator[None]:
    """On the next page. What stands behind the refusal in the block is not done."""
    try:
        yield
    except Refused as refusal:
        messages.error(request, str(refusal))


@contextmanager
def or_404() -> Iterator[None]:
    """For a page about what may not be there."""
    try:
        yield
    except Unknown as unknown:
        raise Http404(str(unknown)) from unknown


def mark(form: Form, refusal: Refused, field_of: Callable[[str], str] = str) -> None:
    """Beside the fields that it names, by their names in the form; above it what is of none."""
    for problem in refusal.problems:
        name = field_of(problem.field)
        if name in form.fields:
            form.add_error(name, problem.what)
        else:
            form.add_error(None, str(problem))
