"""Deployments and routes over REST."""

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.base import NAME, Form, Noun, read
from console.api.placing import PlacingForm, PreviewShape, placing
from console.api.recovery import Cures
from console.api.route_shape import RouteShape
from console.api.scaling import ScalingForm, scaling
from console.api.shapes import DeploymentShape
from console.api.upkeep import UpkeepForm, upkeep
from console.parts import Rows
from control.fleet import actions, facts, places
from control.routes import facts as routes


class ScaleForm(Form):
    replicas_min = serializers.IntegerField()
    replicas_max = serializers.IntegerField()


class Deployments(Cures, Noun):
    serializer_class = DeploymentShape

    def rows(self) -> Rows:
        return Rows(facts.deployment_count(), facts.deployments)

    @extend_schema(parameters=[NAME])
    def retrieve(self, request: Request, name: str) -> Response:
        return self.render(facts.deployment(name), f"there is no deployment {name!r}")

    @extend_schema(parameters=[NAME], request=ScaleForm)
    @action(detail=True, methods=["post"])
    def scale(self, request: Request, name: str) -> Response:
        """Other bounds for how many replicas are wanted; the reconciler does the rest."""
        actions.scale(name, **read(ScaleForm, request), **self.who())
        return self.retrieve(request, name)

    @extend_schema(parameters=[NAME], request=ScalingForm)
    @action(detail=True, methods=["post"])
    def scaling(self, request: Request, name: str) -> Response:
        """How it grows and shrinks between its bounds; whole: what is left out has its default."""
        actions.save_scaling(name, scaling(read(ScalingForm, request)), **self.who())
        return self.retrieve(request, name)

    @extend_schema(parameters=[NAME], request=UpkeepForm)
    @action(detail=True, methods=["post"])
    def upkeep(self, request: Request, name: str) -> Response:
        """Its pin, when replicas are launched anew, whether their context may be shorter; whole."""
        actions.save_upkeep(name, upkeep(read(UpkeepForm, request)), **self.who())
        return self.retrieve(request, name)

    @extend_schema(parameters=[NAME], request=PlacingForm)
    @action(detail=True, methods=["post"])
    def place(self, request: Request, name: str) -> Response:
        """Where its replicas go from the next launch on, and how urgent they are; whole."""
        actions.place(name, placing(read(PlacingForm, request)), **self.who())
        return self.retrieve(request, name)

    @extend_schema(parameters=[NAME], request=PlacingForm, responses=PreviewShape)
    @action(detail=True, methods=["post"])
    def preview(self, request: Request, name: str) -> Response:
        """Where one launch more would go, and who would give way; nothing is changed.

        With an empty body as it is stored, else as if the body were.
        """
        wanted = placing(read(PlacingForm, request)) if request.data else None
        found = places.preview_of(name, wanted, at=timezone.now())
        return Response(PreviewShape(found).data)

    @extend_schema(parameters=[NAME], request=None)
    @action(detail=True, methods=["post"])
    def drain(self, request: Request, name: str) -> Response:
        """Want no replica any more: no new calls, running ones end."""
        actions.drain_deployment(name, **self.who())
        return self.retrieve(request, name)


class Routes(Noun):
    serializer_class = RouteShape

    def rows(self) -> list:
        return routes.routes()
