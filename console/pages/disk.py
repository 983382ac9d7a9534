"""A button for what nodes shall have on their disks ahead of a launch: an engine version."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.access import who
from console.refusals import told
from control.catalog.rules import ENGINE_VERSIONS
from control.fleet.disk import actions
from control.fleet.disk.rules import DEVICE_KINDS, Asked, NotAsked

ENGINE = "vllm"
VERSIONS = ENGINE_VERSIONS[ENGINE][::-1]  # the newest first


class RuntimeForm(forms.Form):
    version = forms.ChoiceField(choices=[(name, name) for name in VERSIONS])
    device_kind = forms.ChoiceField(choices=[(k, k) for k in DEVICE_KINDS], required=False)
    everywhere = forms.ChoiceField(choices=[("yes", "yes")], required=False)
    reason = forms.CharField(max_length=200, required=False)


@require_POST
def install(request: HttpRequest, name: str) -> HttpResponse:
    """On this node, or on every one that can run it: each installs by itself."""
    form = RuntimeForm(request.POST)
    if not form.is_valid():
        problems = (f"{field}: {' '.join(errors)}" for field, errors in form.errors.items())
        messages.error(request, "; ".join(problems))
        return redirect("node", name)
    given = form.cleaned_data
    whom = who(request)
    with told(request):
        decided = actions.install_runtime(
            ENGINE,
            given["version"],
            device_kind=given["device_kind"] or None,
            node=None if given["everywhere"] else name,
            **whom | {"reason": given["reason"] or whom["reason"]},
        )
        messages.success(request, f"{ENGINE} {given['version']}: {'; '.join(map(_said, decided))}.")
    return redirect("node", name)


def _said(one: Asked | NotAsked) -> str:
    if isinstance(one, Asked):
        return f"{one.node} was asked, for {one.device_kind}"
    return f"{one.node} was not: {one.reason}"
