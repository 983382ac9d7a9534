"""By which secret a tenant's receiver knows our alerts, over REST; another one."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.base import NAME, OperatorsOnly
from control.metering.alerts import secrets

NOT_KEPT = {"Cache-Control": "no-store"}


class SecretShape(serializers.Serializer):
    text = serializers.CharField(help_text="As receivers enter it (standardwebhooks.com)")
    previous_until = serializers.DateTimeField(
        allow_null=True, help_text="Until then the one before signs too"
    )


class AlertSecret(OperatorsOnly, APIView):
    @extend_schema(parameters=[NAME], responses=SecretShape)
    def get(self, request: Request, name: str) -> Response:
        found = secrets.secret(name, self.who()["at"])
        if found is None:
            raise NotFound(f"there is no tenant {name!r}")
        return Response(SecretShape(found).data, headers=NOT_KEPT)

    @extend_schema(parameters=[NAME], request=None, responses=SecretShape)
    def post(self, request: Request, name: str) -> Response:
        """Another secret; for 24 hours alerts have a signature by each of both."""
        made = secrets.rotate(name, **self.who())
        return Response(SecretShape(made).data, headers=NOT_KEPT)
