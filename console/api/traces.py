"""Kept calls over REST: how they went, and why they failed, were slow or refused."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.base import OperatorsOnly
from control.metering import kept
from control.metering.kept import REASONS, KeptWanted


class AskedForm(serializers.Serializer):
    kept = serializers.ChoiceField(REASONS, default="", required=False, allow_blank=True)
    code = serializers.CharField(max_length=64, default="", required=False, allow_blank=True)
    route = serializers.CharField(max_length=96, default="", required=False, allow_blank=True)


class StageShape(serializers.Serializer):
    name = serializers.CharField()
    ended_ms = serializers.FloatField(help_text="From the call's arrival")


class DecisionShape(serializers.Serializer):
    name = serializers.CharField()
    figures = serializers.CharField(help_text="Of that moment, as JSON")


class KeptShape(serializers.Serializer):
    call_id = serializers.CharField()
    tenant = serializers.CharField(help_text="Empty without a valid key")
    key = serializers.CharField()
    route = serializers.CharField(help_text="Empty where it was not known")
    priority = serializers.CharField()
    replica_id = serializers.IntegerField(allow_null=True)
    kept = serializers.CharField(help_text=f"Why: {', '.join(REASONS)}")
    outcome = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField(help_text="Of the refusal or failure")
    started_at = serializers.DateTimeField()
    seconds = serializers.FloatField()
    flags = serializers.ListField(child=serializers.CharField())
    link = serializers.CharField(help_text="The caller's own trace")
    stages = StageShape(many=True)
    decisions = DecisionShape(many=True)
    tries = DecisionShape(many=True, help_text="Requests to engines that it went on without")


class Traces(OperatorsOnly, APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("kept", str, enum=REASONS),
            OpenApiParameter("code", str),
            OpenApiParameter("route", str),
        ],
        responses=KeptShape(many=True),
    )
    def get(self, request: Request) -> Response:
        """The newest 200 that match; they are kept for a week."""
        asked = AskedForm(data=request.query_params)
        asked.is_valid(raise_exception=True)
        wanted = KeptWanted(**asked.validated_data)
        return Response(KeptShape(kept.newest(wanted), many=True).data)


class OneTrace(OperatorsOnly, APIView):
    @extend_schema(responses=KeptShape)
    def get(self, request: Request, call_id: str) -> Response:
        """By the id of an answer's `x-request-id`."""
        return Response(KeptShape(kept.one(call_id)).data)
