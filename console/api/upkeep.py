"""How a deployment's replicas are kept, over REST: what may be sent."""

from rest_framework import serializers

from console.api.base import Form
from control.fleet.recycle import Recycle
from control.fleet.upkeep import Upkeep


class RecycleForm(Form):
    calls = serializers.IntegerField(default=None, allow_null=True)
    hours = serializers.FloatField(default=None, allow_null=True)
    host_memory_growth = serializers.FloatField(default=None, allow_null=True)


class UpkeepForm(Form):
    """Whole: what is left out has its default."""

    node = serializers.CharField(default="", allow_blank=True, help_text="Empty is any")
    recycle = RecycleForm(required=False, allow_null=True)
    allow_shorter_context = serializers.BooleanField(
        default=False, help_text="Launch with the context that fits, rather than not at all"
    )


def upkeep(body: dict) -> Upkeep:
    recycle = Recycle(**(body.pop("recycle", None) or {}))
    return Upkeep(recycle=recycle if recycle != Recycle() else None, **body)
