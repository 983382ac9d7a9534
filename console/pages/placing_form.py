"""Where a deployment's replicas go, as a form."""

from django import forms

from control.fleet.facts import DeploymentFacts
from control.fleet.placing import Placing
from control.placement.wanted import AntiAffinity, Objective, PlacementWanted, Policy, Sharing
from control.states import Priority


def _choice(options, label: str) -> forms.ChoiceField:
    widget = forms.Select(attrs={"class": "form-select"})
    named = [(str(one), str(one)) for one in options]
    return forms.ChoiceField(choices=named, label=label, widget=widget)


def _text(label: str) -> forms.CharField:
    widget = forms.TextInput(attrs={"class": "form-control"})
    return forms.CharField(label=label, required=False, max_length=4000, widget=widget)


def _ms(label: str) -> forms.IntegerField:
    widget = forms.NumberInput(attrs={"class": "form-control"})
    return forms.IntegerField(label=label, required=False, min_value=1, widget=widget)


class PlacingForm(forms.Form):
    priority = _choice(Priority, "Priority")
    share = _choice(Sharing, "Card")
    policy = _choice(Policy, "Policy")
    anti_affinity = _choice(AntiAffinity, "Replicas apart")
    pool = _text("Pool, if not any")
    project = _text("Project (tenant/project)")
    devices = _text("Only these devices (uuids)")
    ttft_ms = _ms("TTFT wanted (ms)")
    tpot_ms = _ms("TPOT wanted (ms)")

    def wanted(self) -> Placing:
        given = self.cleaned_data
        named = {name: given[name] for name in ("share", "policy", "anti_affinity", "pool")}
        devices = tuple(given["devices"].replace(",", " ").split())
        objective = Objective(given["ttft_ms"], given["tpot_ms"])
        return Placing(
            priority=given["priority"],
            project=given["project"],
            placement=PlacementWanted(devices=devices, **named),
            objective=objective if objective != Objective() else None,
        )


def form_of(deployment: DeploymentFacts) -> PlacingForm:
    """As it is stored, for the page."""
    placing = deployment.placing
    objective = placing.objective or Objective()
    return PlacingForm(
        initial={
            "priority": placing.priority,
            "project": placing.project,
            **vars(placing.placement),
            "devices": " ".join(placing.placement.devices),
            **vars(objective),
        }
    )
