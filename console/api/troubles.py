"""Open troubles of the fleet over REST."""

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.base import OperatorsOnly
from control.fleet.troubles import facts


class TroubleShape(serializers.Serializer):
    kind = serializers.CharField(
        help_text="crash loop, unplaced, node lost, quarantine, few replicas"
    )
    about = serializers.CharField(help_text="Name of the deployment or the node")
    what = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)
    is_urgent = serializers.BooleanField(help_text="Calls fail or capacity is gone; else a warning")


class Troubles(OperatorsOnly, APIView):
    @extend_schema(responses=TroubleShape(many=True))
    def get(self, request: Request) -> Response:
        """What somebody should look at now, the urgent first; it is open as long as it lasts."""
        found = facts.troubles(timezone.now())
        return Response(TroubleShape(found, many=True).data)
