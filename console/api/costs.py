"""Costs over REST: device time by line, cost per million tokens, advice, weights."""

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.base import OperatorsOnly
from control.catalog.advice import facts as advice
from control.metering import exports
from control.metering.cost import facts, figures, measuring

GROUPS_MAX = 4
MONTH = OpenApiParameter("month", str, description="As in 2026-11; this month if left out")
GROUP = OpenApiParameter("group", str, many=True, enum=list(figures.GROUPS), default="pool")
MONEY = {"max_digits": 38, "decimal_places": 6, "allow_null": True}
FEN = {"max_digits": 38, "decimal_places": 2, "allow_null": True}


class LineShape(serializers.Serializer):
    line = serializers.CharField()
    title = serializers.CharField()
    device_seconds = serializers.FloatField()
    percent = serializers.DecimalField(max_digits=5, decimal_places=2)
    cost = serializers.DecimalField(**MONEY)


class ClassShape(serializers.Serializer):
    input = serializers.DecimalField(**MONEY)
    cached_input = serializers.DecimalField(**MONEY)
    output = serializers.DecimalField(**MONEY)


class CostShape(serializers.Serializer):
    group = serializers.ListField(child=serializers.CharField(allow_null=True))
    calls = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    cached_input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    device_seconds = serializers.FloatField()
    busy_seconds = serializers.FloatField()
    utilisation_ratio = serializers.FloatField(allow_null=True)
    allocated_ratio = serializers.FloatField(allow_null=True)
    idle_ratio = serializers.FloatField(allow_null=True)
    currency = serializers.CharField()
    hardware = serializers.DecimalField(**MONEY)
    power = serializers.DecimalField(**MONEY)
    power_assumed = serializers.BooleanField(help_text="A card of it draws what we assume")
    engineering = serializers.DecimalField(**MONEY)
    spread = serializers.DecimalField(**MONEY, help_text="Of what nobody used, by pool policy")
    cost = serializers.DecimalField(**MONEY)
    idle_cost = serializers.DecimalField(**MONEY)
    failure_and_idle = serializers.DecimalField(
        **MONEY, help_text="With failed work, warm-up and what the platform asked for itself"
    )
    per_million = ClassShape(allow_null=True)
    reason = serializers.CharField(help_text="Why a figure is missing, or empty")
    revenue = serializers.DecimalField(**MONEY)
    margin_ratio = serializers.FloatField(allow_null=True)
    lines = LineShape(many=True, help_text="Their percents sum to 100.00")
    formula = serializers.CharField()


class AdviceShape(serializers.Serializer):
    deployment = serializers.CharField()
    version = serializers.CharField()
    variant = serializers.CharField()
    kind = serializers.CharField()
    calls = serializers.IntegerField()
    currency = serializers.CharField()
    cost = serializers.DecimalField(**FEN)
    would_cost = serializers.DecimalField(**FEN)
    saving = serializers.DecimalField(**FEN)
    saving_ratio = serializers.FloatField(allow_null=True)
    utilisation_ratio = serializers.FloatField(allow_null=True)
    ttft_ms = serializers.FloatField(allow_null=True)
    would_ttft_ms = serializers.FloatField(allow_null=True)
    reason = serializers.CharField()


class QuantisedShape(serializers.Serializer):
    version = serializers.CharField()
    device = serializers.CharField()
    promised_bytes = serializers.IntegerField()
    measured_bytes = serializers.IntegerField()
    less_than_promised = serializers.BooleanField()
    tokens_saved_ratio = serializers.FloatField(allow_null=True)


class AdvicesShape(serializers.Serializer):
    variants = AdviceShape(many=True)
    quantised = QuantisedShape(many=True)


class WeighingShape(serializers.Serializer):
    model = serializers.CharField()
    version = serializers.CharField()
    cached_input = serializers.DecimalField(**MONEY)
    output = serializers.DecimalField(**MONEY)
    hours = serializers.IntegerField()
    reason = serializers.CharField()


class TakeOverShape(serializers.Serializer):
    model = serializers.CharField(max_length=96)
    version = serializers.CharField(max_length=63)


class Costs(OperatorsOnly, APIView):
    @extend_schema(parameters=[MONTH, GROUP], responses=CostShape(many=True))
    def get(self, request: Request) -> Response:
        """Device time and cost of a month (UTC), by group, beside utilisation and idle share."""
        groups = request.query_params.getlist("group")[:GROUPS_MAX] or ["pool"]
        return Response(CostShape(facts.costs(groups, *_month(request)), many=True).data)


class Advice(OperatorsOnly, APIView):
    @extend_schema(parameters=[MONTH], responses=AdvicesShape)
    def get(self, request: Request) -> Response:
        """What a month's calls would have cost on variants, and what quantisations gave."""
        since, until = _month(request)
        found = {"variants": advice.advice(since, until), "quantised": advice.quantised(until)}
        return Response(AdvicesShape(found).data)


class Weights(OperatorsOnly, APIView):
    @extend_schema(responses=WeighingShape(many=True))
    def get(self, _request: Request) -> Response:
        """Weights of token classes as the last 30 days measure them, by version."""
        return Response(WeighingShape(measuring.weighings(timezone.now()), many=True).data)

    @extend_schema(request=TakeOverShape, responses={204: None})
    def post(self, request: Request) -> Response:
        """What was measured of a version holds from now on."""
        given = TakeOverShape(data=request.data)
        given.is_valid(raise_exception=True)
        measuring.take_over(**given.validated_data, **self.who())
        return Response(status=204)


def _month(request: Request) -> tuple:
    return exports.month(request.query_params.get("month", f"{timezone.now():%Y-%m}"))
