"""What failures taught, over REST: overrides, another try, and cards in quarantine."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.base import NAME, Form, read
from control.recovery import actions, facts


class OverrideShape(serializers.Serializer):
    id = serializers.IntegerField()
    cause = serializers.CharField()
    changes = serializers.CharField(help_text="In words")
    reason = serializers.CharField()
    node = serializers.CharField(help_text="Of a limit that holds for a whole host")
    created_at = serializers.DateTimeField()


class OverrideForm(Form):
    id = serializers.IntegerField()


class DeviceForm(Form):
    device = serializers.CharField(help_text="Its uuid")


class Cures:
    """Of a deployment."""

    @extend_schema(parameters=[NAME], responses=OverrideShape(many=True))
    @action(detail=True)
    def overrides(self, request: Request, name: str) -> Response:
        """How its next launches differ from what its version asks for, and why."""
        return Response(OverrideShape(facts.of_deployment(name), many=True).data)

    @extend_schema(parameters=[NAME], request=OverrideForm)
    @action(detail=True, methods=["post"])
    def drop_override(self, request: Request, name: str) -> Response:
        """The next launch is again as its version asks, as far as this one goes."""
        actions.drop_override(name, read(OverrideForm, request)["id"], **self.who())
        return self.retrieve(request, name)

    @extend_schema(parameters=[NAME], request=None)
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, name: str) -> Response:
        """Launch again now: failures until now count no longer."""
        actions.retry(name, **self.who())
        return self.retrieve(request, name)


class Quarantine:
    """Of a node's cards."""

    @extend_schema(parameters=[NAME], request=DeviceForm)
    @action(detail=True, methods=["post"])
    def quarantine(self, request: Request, name: str) -> Response:
        """Place nothing new on one of its devices; what runs there goes on."""
        actions.quarantine_device(name, read(DeviceForm, request)["device"], **self.who())
        return self.retrieve(request, name)

    @extend_schema(parameters=[NAME], request=DeviceForm)
    @action(detail=True, methods=["post"])
    def release(self, request: Request, name: str) -> Response:
        """Back into use: what spoke against the device until now counts no longer."""
        actions.release_device(name, read(DeviceForm, request)["device"], **self.who())
        return self.retrieve(request, name)
