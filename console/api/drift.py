"""Drift over REST: judged hours of replicas, and the closing of incidents."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.base import Form, Noun, read
from console.parts import Rows
from control.metering.drift import actions, books

HOURS = 24
ID = OpenApiParameter("id", int, OpenApiParameter.PATH)


class TokensShape(serializers.Serializer):
    input = serializers.IntegerField()
    output = serializers.IntegerField()


class SuspectShape(serializers.Serializer):
    call_id = serializers.CharField()
    number = serializers.IntegerField(help_text="Of the call's attempts")
    purpose = serializers.CharField()
    outcome = serializers.CharField()
    source = serializers.CharField(help_text="Of its tokens")
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    may_be_off = serializers.IntegerField(help_text="Tokens by which it may be wrong")


class DriftShape(serializers.Serializer):
    id = serializers.IntegerField()
    replica_id = serializers.IntegerField()
    replica = serializers.CharField()
    begin_at = serializers.DateTimeField()
    end_at = serializers.DateTimeField()
    attempts = serializers.IntegerField()
    cut_attempts = serializers.IntegerField()
    engine = TokensShape(help_text="As the engine counted")
    attempted = TokensShape(help_text="As the attempts tell")
    attempted_min = TokensShape(help_text="That they explain at least")
    attempted_max = TokensShape(help_text="And at most, with what nobody saw of those cut")
    unexplained = TokensShape(help_text="The engine's beyond these; below zero: short of them")
    is_incident = serializers.BooleanField()
    is_open = serializers.BooleanField()
    calls = SuspectShape(many=True, help_text="Of an incident: where to look first")
    closed_at = serializers.DateTimeField(allow_null=True)
    closed_by = serializers.CharField()
    closed_reason = serializers.CharField()


class NotReadShape(serializers.Serializer):
    replica = serializers.CharField()
    why = serializers.CharField(help_text="Its counters are not read, and held against nothing")


class CloseForm(Form):
    reason = serializers.CharField(max_length=2000, help_text="What it was")


class Drifts(Noun):
    serializer_class = DriftShape
    lookup_field = "id"
    lookup_value_converter = "int"

    def rows(self) -> Rows:
        given = self.request.query_params.get("hours", str(HOURS))
        if not given.isdecimal() or not 1 <= int(given) <= books.HOURS_MAX:
            raise ValidationError({"hours": f"must be between 1 and {books.HOURS_MAX}"})
        since = books.hours_before(self.who()["at"], int(given))
        return Rows(
            books.hours_count(since),
            lambda first, count: books.hours(since, limit=count, offset=first),
        )

    @extend_schema(parameters=[OpenApiParameter("hours", int, default=HOURS)])
    def list(self, request: Request) -> Response:
        """Replicas' hours that ended since, the newest first; an incident with its calls."""
        return super().list(request)

    @extend_schema(responses=NotReadShape(many=True), filters=False)
    @action(detail=False, methods=["get"], pagination_class=None)
    def unread(self, request: Request) -> Response:
        """Engines that Weir did not launch and whose counters it does not know, with the reason."""
        return Response(NotReadShape(books.unread(), many=True).data)

    @extend_schema(parameters=[ID], request=CloseForm)
    @action(detail=True, methods=["post"])
    def close(self, request: Request, id: int) -> Response:
        """Say what an incident was: it is not asked again."""
        who = self.who() | {"reason": read(CloseForm, request)["reason"]}
        actions.close_incident(id, **who)
        return self.render(books.incident(id), f"there is no drift incident {id}")
