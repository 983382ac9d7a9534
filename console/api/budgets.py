"""Budgets in use and their alerts over REST."""

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.base import NAME, TENANT, OperatorsOnly, named, read
from console.api.tenancy import BudgetForm
from control.metering import spending
from control.metering.alerts import actions, facts
from control.tenancy.budgets import set_budget
from control.tenancy.rules import BudgetWanted

ID = OpenApiParameter("id", int, OpenApiParameter.PATH)


class UseShape(serializers.Serializer):
    tenant = serializers.CharField()
    kind = serializers.CharField(help_text="tenant, project or key")
    scope = serializers.CharField(help_text="Name of the project or key")
    unit = serializers.CharField(help_text="A currency, or tokens")
    period = serializers.CharField()
    mode = serializers.CharField()
    begins_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    amount = serializers.CharField()
    spent = serializers.CharField()
    held = serializers.CharField(help_text="By gateways, for calls that run")
    left = serializers.CharField()
    percent = serializers.IntegerField()


class AlertShape(serializers.Serializer):
    id = serializers.IntegerField()
    tenant = serializers.CharField()
    scope = serializers.CharField()
    text = serializers.CharField()
    percent = serializers.IntegerField()
    mode = serializers.CharField()
    begins_at = serializers.DateTimeField()
    at = serializers.DateTimeField()
    seen_at = serializers.DateTimeField(allow_null=True)
    seen_by = serializers.CharField()
    url = serializers.CharField()
    delivery = serializers.CharField()
    tries = serializers.IntegerField()
    answer = serializers.CharField()


class Budgets(OperatorsOnly, APIView):
    @extend_schema(parameters=[TENANT], responses=UseShape(many=True))
    def get(self, request: Request) -> Response:
        """All budgets in their present period, the most used first."""
        found = spending.budgets(timezone.now(), named(request, "tenant"))
        return Response(UseShape(found, many=True).data)


class ScopedForm(BudgetForm):
    """Of the tenant, unless a project or a key is named."""

    project = serializers.CharField(default="", allow_blank=True)
    key = serializers.CharField(default="", allow_blank=True)


class ScopedBudget(OperatorsOnly, APIView):
    @extend_schema(parameters=[NAME], request=ScopedForm, responses={204: None})
    def put(self, request: Request, name: str) -> Response:
        """Set the budget of a tenant, or of one of its projects or keys."""
        body = read(ScopedForm, request)
        scope = (name, body.pop("project"), body.pop("key"))
        set_budget(scope, BudgetWanted(**body), **self.who())
        return Response(status=204)

    @extend_schema(
        parameters=[NAME, OpenApiParameter("project", str), OpenApiParameter("key", str)],
        responses={204: None},
    )
    def delete(self, request: Request, name: str) -> Response:
        """Remove it."""
        scope = [named(request, each) for each in ("project", "key")]
        set_budget((name, *scope), None, **self.who())
        return Response(status=204)


class Alerts(OperatorsOnly, APIView):
    @extend_schema(parameters=[TENANT], responses=AlertShape(many=True))
    def get(self, request: Request) -> Response:
        """The newest 200."""
        found = facts.alerts(named(request, "tenant"), count=facts.ROWS_MAX)
        return Response(AlertShape(found, many=True).data)


class AlertSeen(OperatorsOnly, APIView):
    @extend_schema(parameters=[ID], request=None, responses={204: None})
    def post(self, request: Request, id: int) -> Response:
        """Somebody has seen it: it leaves the console's banner."""
        actions.mark_seen(id, **self.who())
        return Response(status=204)
