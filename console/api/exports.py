"""Files of usage and of what was billed over REST: to download now, or written on a clock."""

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.base import TENANT, Form, OperatorsOnly, named, read
from console.files import file_of
from control.metering.exports import schedules
from control.metering.exports.orders import Order
from control.metering.exports.schedule_rules import EVERY
from control.metering.exports.wanted import (
    FOCUS_VERSIONS,
    FORMATS,
    ON_A_CLOCK,
    TABLES,
    ScheduleWanted,
)


class Export(OperatorsOnly, APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("what", str, OpenApiParameter.PATH, enum=list(FORMATS)),
            OpenApiParameter("month", str, description="As in 2026-11"),
            OpenApiParameter("format_", str, enum=TABLES, description=f"{TABLES[0]} if left out"),
            OpenApiParameter("version", str, enum=FOCUS_VERSIONS, description="Of FOCUS"),
            OpenApiParameter("number", str, description="Of an invoice"),
            OpenApiParameter("model", str, description="Only calls of it (usage)"),
            TENANT,
        ],
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, what: str) -> StreamingHttpResponse:
        """A file, as `weir export` writes it, row after row."""
        names = ("month", "tenant", "model", "number", "version")
        told = {name: named(request, name) for name in names}
        told = {name: value for name, value in told.items() if value}
        return file_of(Order(what, named(request, "format_"), **told))


class ScheduleForm(Form):
    what = serializers.ChoiceField(ON_A_CLOCK)
    destination = serializers.CharField(help_text="file:///folder or s3://bucket/folder")
    format = serializers.ChoiceField(TABLES, default=ScheduleWanted.format)
    version = serializers.ChoiceField(FOCUS_VERSIONS, default=ScheduleWanted.version)
    tenant = serializers.CharField(default="", allow_blank=True)
    every = serializers.ChoiceField(EVERY, default=ScheduleWanted.every)


class ScheduleShape(ScheduleForm):
    name = serializers.CharField()
    done_until = serializers.DateTimeField(allow_null=True)
    tried_at = serializers.DateTimeField(allow_null=True)
    wrote = serializers.CharField()
    error = serializers.CharField()


class Schedules(OperatorsOnly, APIView):
    @extend_schema(responses=ScheduleShape(many=True))
    def get(self, request: Request) -> Response:
        """Files that are written on a clock."""
        return Response(ScheduleShape(schedules.schedules(), many=True).data)


class OneSchedule(OperatorsOnly, APIView):
    @extend_schema(request=ScheduleForm, responses={204: None})
    def put(self, request: Request, name: str) -> Response:
        """Make the schedule what is sent, new or not."""
        wanted = ScheduleWanted(name=name, **read(ScheduleForm, request))
        schedules.save_schedule(wanted, **self.who())
        return Response(status=204)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        schedules.remove_schedule(name, **self.who())
        return Response(status=204)
