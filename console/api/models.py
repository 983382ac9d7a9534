"""Models and versions over REST, with the fit card of each version."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.base import NAME, Noun
from console.api.shapes import Named
from control.catalog import facts, fitting


class VersionShape(serializers.Serializer):
    name = serializers.CharField()
    engine_kind = serializers.CharField()
    engine_version = serializers.CharField()
    source = Named(child=serializers.CharField())
    arguments = Named(child=serializers.JSONField())
    digest = serializers.CharField()
    deployments = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    archived_at = serializers.DateTimeField(allow_null=True)


class ModelShape(serializers.Serializer):
    name = serializers.CharField()
    created_at = serializers.DateTimeField()
    archived_at = serializers.DateTimeField(allow_null=True)
    versions = VersionShape(many=True)


class RemedyShape(serializers.Serializer):
    what = serializers.CharField()
    arguments = Named(child=serializers.JSONField())
    kv_tokens = serializers.IntegerField()
    calls = serializers.IntegerField()


class FitShape(serializers.Serializer):
    device = serializers.CharField(source="device.name")
    kind = serializers.CharField(source="device.kind")
    memory_bytes = serializers.IntegerField(source="device.memory_bytes")
    in_fleet = serializers.IntegerField(source="device.in_fleet")
    fits = serializers.BooleanField()
    devices = serializers.IntegerField(help_text="That one replica takes")
    weights_bytes = serializers.IntegerField(help_text="On each of them")
    overhead_bytes = serializers.IntegerField()
    kv_bytes = serializers.IntegerField(help_text="Negative says how much is missing")
    kv_tokens = serializers.IntegerField()
    context_tokens = serializers.IntegerField()
    calls = serializers.IntegerField(help_text="Of full length at once")
    why = serializers.CharField()
    remedies = RemedyShape(many=True)


class ColdStartShape(serializers.Serializer):
    seconds = serializers.FloatField(help_text="Medians of the last starts, and their sum")
    wait_seconds = serializers.FloatField()
    fetch_seconds = serializers.FloatField()
    import_seconds = serializers.FloatField()
    load_seconds = serializers.FloatField()
    capture_seconds = serializers.FloatField()
    warm_up_seconds = serializers.FloatField()
    starts = serializers.IntegerField()


class PeakShape(serializers.Serializer):
    device_name = serializers.CharField()
    device_kind = serializers.CharField()
    weights_bytes = serializers.IntegerField(allow_null=True)
    consumed_bytes = serializers.IntegerField(allow_null=True)
    activation_bytes = serializers.IntegerField(allow_null=True)
    graph_bytes = serializers.IntegerField(allow_null=True)
    kv_bytes = serializers.IntegerField(allow_null=True)
    kv_tokens = serializers.IntegerField(allow_null=True)
    beside_kv_bytes = serializers.IntegerField(allow_null=True)
    host_bytes = serializers.IntegerField(allow_null=True)
    launches = serializers.IntegerField()
    measured_at = serializers.DateTimeField()


class BatchShape(serializers.Serializer):
    name = serializers.CharField(source="argument.name")
    value = serializers.JSONField(allow_null=True, help_text="Null: what `unsaid` says")
    unsaid = serializers.CharField(source="argument.unsaid")
    unit = serializers.CharField(source="argument.unit")
    least = serializers.IntegerField(source="argument.least")
    most = serializers.IntegerField(source="argument.most")
    what = serializers.CharField(source="argument.what")
    measured = serializers.CharField(help_text="Of this version, in the last 30 days")
    benchmark = serializers.CharField(source="argument.benchmark", help_text="The last one of it")


class VersionFitShape(serializers.Serializer):
    model = serializers.CharField()
    version = serializers.CharField()
    guidance = serializers.CharField()
    rests_on = serializers.CharField()
    card = FitShape(many=True)
    batch = BatchShape(many=True)
    peaks = PeakShape(many=True)
    cold_start = ColdStartShape(allow_null=True)


class Models(Noun):
    serializer_class = ModelShape

    def rows(self) -> list:
        return facts.models()

    @extend_schema(parameters=[NAME], responses=VersionFitShape(many=True))
    @action(detail=True, methods=["get"], pagination_class=None)
    def fit(self, request: Request, name: str) -> Response:
        """Where each version fits, with how many tokens, and what would make it fit."""
        return Response(VersionFitShape(fitting.of_model(name), many=True).data)
