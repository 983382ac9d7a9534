"""Where replicas go, over REST: what may be sent, and what a preview answers."""

from rest_framework import serializers

from console.api.base import Form
from control.fleet.placing import Placing
from control.placement.wanted import AntiAffinity, Objective, PlacementWanted, Policy, Sharing
from control.states import Priority


class PlacementForm(Form):
    share = serializers.ChoiceField([str(one) for one in Sharing], default="own")
    policy = serializers.ChoiceField([str(one) for one in Policy], default="pack")
    anti_affinity = serializers.ChoiceField([str(one) for one in AntiAffinity], default="preferred")
    pool = serializers.CharField(default="", allow_blank=True)
    devices = serializers.ListField(child=serializers.CharField(), default=list)


class ObjectiveForm(Form):
    ttft_ms = serializers.IntegerField(default=None, allow_null=True)
    tpot_ms = serializers.IntegerField(default=None, allow_null=True)


class PlacingForm(Form):
    """Whole: what is left out has its default."""

    priority = serializers.ChoiceField([str(one) for one in Priority], default="standard")
    project = serializers.CharField(default="", allow_blank=True, help_text="tenant/project")
    placement = PlacementForm(required=False)
    objective = ObjectiveForm(required=False, allow_null=True)


class PreviewShape(serializers.Serializer):
    verdict = serializers.CharField(help_text="placed, waits, displaces or unplaced")
    text = serializers.CharField()
    gives_way = serializers.ListField(
        child=serializers.CharField(), help_text="Replicas that would be drained"
    )


def placing(body: dict) -> Placing:
    placement = dict(body.get("placement") or {})
    if "devices" in placement:
        placement["devices"] = tuple(placement["devices"])
    objective = body.get("objective")
    return Placing(
        priority=body["priority"],
        project=body["project"],
        placement=PlacementWanted(**placement),
        objective=Objective(**objective) if objective else None,
    )
