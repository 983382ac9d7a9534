"""Open troubles of the fleet over REST, and incidents with who was told of them."""

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.base import OperatorsOnly
from control.fleet.incidents import facts as incidents
from control.fleet.incidents.rules import KINDS
from control.fleet.troubles import facts
from control.fleet.troubles.rules import Kind


class TroubleShape(serializers.Serializer):
    kind = serializers.CharField(help_text=", ".join(Kind))
    about = serializers.CharField(
        help_text="Name of the deployment or the node, or the beginning of a prompt's fingerprint"
    )
    what = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)
    is_urgent = serializers.BooleanField(help_text="Calls fail or capacity is gone; else a warning")


class Troubles(OperatorsOnly, APIView):
    @extend_schema(responses=TroubleShape(many=True))
    def get(self, request: Request) -> Response:
        """What somebody should look at now, the urgent first; it is open as long as it lasts."""
        found = facts.troubles(timezone.now())
        return Response(TroubleShape(found, many=True).data)


class LetterShape(serializers.Serializer):
    event = serializers.CharField(help_text="opened or ended")
    at = serializers.DateTimeField()
    url = serializers.CharField()
    delivery = serializers.CharField()
    tries = serializers.IntegerField()
    answer = serializers.CharField(help_text="To the last try, if it was not taken")


class IncidentShape(serializers.Serializer):
    id = serializers.IntegerField()
    kind = serializers.CharField(help_text=", ".join(KINDS))
    about = serializers.CharField()
    what = serializers.CharField(help_text="When it opened")
    is_urgent = serializers.BooleanField()
    opened_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    letters = LetterShape(many=True, help_text="To WEIR_ALERT_URL; none without one")


class Incidents(OperatorsOnly, APIView):
    @extend_schema(responses=IncidentShape(many=True))
    def get(self, request: Request) -> Response:
        """Open ones first, then the newest: 200 at most."""
        found = incidents.incidents(count=incidents.ROWS_MAX)
        return Response(IncidentShape(found, many=True).data)
