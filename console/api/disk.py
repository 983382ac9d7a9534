"""Engines and weights on nodes' disks over REST: asked for ahead, and how far they are."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.base import Form, OperatorsOnly, read
from control.fleet.disk import actions, facts
from control.fleet.disk.rules import DEVICE_KINDS, Asked


class RuntimeShape(serializers.Serializer):
    node = serializers.CharField()
    engine = serializers.CharField()
    version = serializers.CharField()
    device_kind = serializers.CharField()
    state = serializers.CharField(help_text="wanted, running, done or failed")
    percent = serializers.IntegerField()
    detail = serializers.CharField()
    size_bytes = serializers.IntegerField(allow_null=True)
    state_at = serializers.DateTimeField()


class WeightsShape(serializers.Serializer):
    node = serializers.CharField()
    key = serializers.CharField()
    state = serializers.CharField(help_text="wanted, running, done or failed")
    percent = serializers.IntegerField()
    detail = serializers.CharField()
    size_bytes = serializers.IntegerField(allow_null=True)
    held = serializers.BooleanField(help_text="A live replica uses them")
    used_at = serializers.DateTimeField(allow_null=True)
    state_at = serializers.DateTimeField()


class DiskShape(serializers.Serializer):
    runtimes = RuntimeShape(many=True)
    weights = WeightsShape(many=True)


class RuntimeForm(Form):
    engine = serializers.CharField(default="vllm")
    version = serializers.CharField()
    device_kind = serializers.ChoiceField(DEVICE_KINDS, default=None, allow_null=True)
    node = serializers.CharField(default=None, allow_null=True, help_text="null is every node")


class WeightsForm(Form):
    model = serializers.CharField()
    version = serializers.CharField()
    node = serializers.CharField(default=None, allow_null=True, help_text="null is every node")


class AskedShape(serializers.Serializer):
    node = serializers.CharField()
    asked = serializers.BooleanField()
    reason = serializers.CharField(help_text="Why it was not asked")


class Runtimes(OperatorsOnly, APIView):
    @extend_schema(responses=RuntimeShape(many=True))
    def get(self, request: Request) -> Response:
        return Response(RuntimeShape(facts.runtimes(), many=True).data)

    @extend_schema(request=RuntimeForm, responses=AskedShape(many=True))
    def post(self, request: Request) -> Response:
        """Ask nodes for an engine version; refused if none can run it."""
        return _asked(actions.install_runtime(**read(RuntimeForm, request), **self.who()))


class Weights(OperatorsOnly, APIView):
    @extend_schema(responses=WeightsShape(many=True))
    def get(self, request: Request) -> Response:
        return Response(WeightsShape(facts.weights(), many=True).data)

    @extend_schema(request=WeightsForm, responses=AskedShape(many=True))
    def post(self, request: Request) -> Response:
        """Ask nodes for the weights of a version."""
        return _asked(actions.prefetch(**read(WeightsForm, request), **self.who()))


def _asked(decided: list) -> Response:
    rows = [
        {"node": one.node, "asked": isinstance(one, Asked), "reason": getattr(one, "reason", "")}
        for one in decided
    ]
    return Response(AskedShape(rows, many=True).data, status=202)
