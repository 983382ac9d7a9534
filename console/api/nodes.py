"""Nodes over REST: what they are, and where they may be left out of."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.base import NAME, Form, Noun, read
from console.api.disk import DiskShape
from console.api.recovery import Quarantine
from console.api.shapes import NodeShape
from control.fleet.disk import facts as disk
from control.fleet.nodes import actions, facts, rules


class CordonForm(Form):
    cordoned = serializers.BooleanField()


class LeavingForm(Form):
    in_seconds = serializers.FloatField(min_value=0, max_value=rules.LEAVING_SECONDS_MAX)


class DescribeForm(Form):
    pool = serializers.CharField(required=False)
    labels = serializers.DictField(
        child=serializers.CharField(allow_blank=True), required=False, help_text="All of them"
    )


class Nodes(Quarantine, Noun):
    serializer_class = NodeShape

    def rows(self) -> list:
        return facts.nodes()

    @extend_schema(parameters=[NAME])
    def retrieve(self, request: Request, name: str) -> Response:
        return self.render(facts.node(name), f"there is no node {name!r}")

    @extend_schema(parameters=[NAME], request=DescribeForm)
    def partial_update(self, request: Request, name: str) -> Response:
        """Another pool, or another whole set of labels; what runs there goes on."""
        actions.describe(name, **read(DescribeForm, request), **self.who())
        return self.retrieve(request, name)

    @extend_schema(parameters=[NAME], request=CordonForm)
    @action(detail=True, methods=["post"])
    def cordon(self, request: Request, name: str) -> Response:
        """Keep new replicas off the node, or let them on it again: that ends a drain too."""
        actions.cordon(name, read(CordonForm, request)["cordoned"], **self.who())
        return self.retrieve(request, name)

    @extend_schema(parameters=[NAME], request=None)
    @action(detail=True, methods=["post"])
    def drain(self, request: Request, name: str) -> Response:
        """Move all its replicas away, each when its successor serves."""
        actions.drain_node(name, **self.who())
        return self.retrieve(request, name)

    @extend_schema(parameters=[NAME], request=LeavingForm)
    @action(detail=True, methods=["post"])
    def leaving(self, request: Request, name: str) -> Response:
        """Its host goes in so many seconds: drained by then, with or without successors."""
        actions.leave(name, read(LeavingForm, request)["in_seconds"], **self.who())
        return self.retrieve(request, name)

    @extend_schema(parameters=[NAME], responses=DiskShape)
    @action(detail=True, methods=["get"], pagination_class=None)
    def disk(self, request: Request, name: str) -> Response:
        """Engines and weights that it has, or that are on their way."""
        if facts.node(name) is None:
            raise NotFound(f"there is no node {name!r}")
        return Response(DiskShape(disk.of_node(name)).data)

    @extend_schema(parameters=[NAME])
    def destroy(self, request: Request, name: str) -> Response:
        """Strike off a node that will not return: what was booked on it is free again."""
        actions.remove_node(name, **self.who())
        return Response(status=204)
