"""How a deployment's replicas are kept, as a form."""

from django import forms

from control.fleet.facts import DeploymentFacts
from control.fleet.recycle import Recycle
from control.fleet.upkeep import Upkeep

TOO_SMALL = [("", "the launch fails"), ("on", "a shorter one is served")]


def _number(kind: type[forms.IntegerField], label: str, step: str) -> forms.IntegerField:
    widget = forms.NumberInput(attrs={"class": "form-control", "placeholder": "never"})
    if step:
        widget.attrs["step"] = step
    return kind(label=label, required=False, widget=widget)


class UpkeepForm(forms.Form):
    node = forms.CharField(
        label="Pinned to node",
        max_length=128,
        required=False,
        widget=forms.TextInput(attrs={"class": "form-control", "placeholder": "any"}),
    )
    calls = _number(forms.IntegerField, "Relaunched after (calls)", "")
    hours = _number(forms.FloatField, "Relaunched after (hours)", "any")
    host_memory_growth = _number(forms.FloatField, "Relaunched at growth of", "any")
    allow_shorter_context = forms.TypedChoiceField(
        label="Where its context does not fit",
        choices=TOO_SMALL,
        coerce=bool,
        empty_value=False,
        required=False,
        widget=forms.Select(attrs={"class": "form-select"}),
    )

    def wanted(self) -> Upkeep:
        given = dict(self.cleaned_data)
        node, shorter = given.pop("node"), given.pop("allow_shorter_context")
        recycle = Recycle(**given)
        return Upkeep(node, recycle if recycle != Recycle() else None, shorter)


def form_of(deployment: DeploymentFacts) -> UpkeepForm:
    """As it is stored, for the page."""
    shorter = "on" if deployment.allow_shorter_context else ""
    kept = {"node": deployment.node, "allow_shorter_context": shorter}
    return UpkeepForm(initial=kept | (deployment.recycle or {}))
