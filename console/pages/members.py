"""People of a tenant, on the operators' page of it: add, invite again, remove."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.access import said, who
from console.refusals import told
from control.tenancy.members import actions


@require_POST
def change(request: HttpRequest, name: str) -> HttpResponse:
    username = said(request.POST, "username")
    with told(request):
        match request.POST.get("do"):
            case "add":
                made = actions.add_member(name, username, **who(request))
                _tell(request, made)
            case "invite":
                _tell(request, actions.invite_again(name, username, **who(request)))
            case "remove":
                actions.remove_member(name, username, **who(request))
                messages.success(request, f"{username} is removed, and signed out.")
            case _:
                messages.error(request, "Say what to do: add, invite or remove.")
    return redirect("tenant", name)


def _tell(request: HttpRequest, made: actions.Invitation) -> None:
    link = request.build_absolute_uri(made.path)
    messages.success(
        request,
        f"Send this link to {made.username}, who chooses a password there within three days;"
        f" it is shown only now: {link}",
    )
