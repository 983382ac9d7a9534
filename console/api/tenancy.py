"""Tenants and keys over REST."""

from django.core.validators import MaxValueValidator
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.base import NAME, TENANT, Form, Noun, named, read
from console.api.shapes import KeyShape, NewKeyShape, TenantShape
from console.parts import Rows
from control.states import BudgetMode, Priority
from control.tenancy import actions, facts
from control.tenancy.rules import (
    DEFAULT_PROJECT,
    ENDPOINTS,
    BudgetWanted,
    Limits,
    TenantWanted,
)

LARGEST = MaxValueValidator(2**63 - 1)
ID = OpenApiParameter("id", int, OpenApiParameter.PATH)


class LimitsForm(Form):
    """One number for each limit; one that is left out is no limit."""

    def get_fields(self) -> dict:
        number = {"required": False, "allow_null": True, "validators": [LARGEST]}
        return {name: serializers.IntegerField(**number) for name in Limits.__dataclass_fields__}


class BudgetForm(Form):
    amount = serializers.DecimalField(
        max_digits=20, decimal_places=6, default=None, allow_null=True
    )
    currency = serializers.CharField(default="", allow_blank=True)
    period = serializers.CharField(default="month")
    tokens = serializers.IntegerField(default=None, allow_null=True, validators=[LARGEST])
    mode = serializers.ChoiceField([str(one) for one in BudgetMode], default="hard")


class TenantForm(Form):
    """A tenant, whole: what is left out has its default."""

    priority = serializers.ChoiceField([str(one) for one in Priority], default="standard")
    timezone = serializers.CharField(default="UTC")
    limits = LimitsForm(required=False)
    budget = BudgetForm(required=False, allow_null=True)
    prepaid = serializers.CharField(
        default="", allow_blank=True, help_text="Currency of its credit; empty: it pays later"
    )
    alert_url = serializers.CharField(default="", allow_blank=True)


class KeyForm(Form):
    tenant = serializers.CharField()
    name = serializers.CharField()
    project = serializers.CharField(default=DEFAULT_PROJECT)
    secret = serializers.CharField(
        default=None, allow_null=True, help_text="32 to 256 characters; without it one is made"
    )
    routes = serializers.ListField(child=serializers.CharField(), default=None, allow_null=True)
    endpoints = serializers.ListField(
        child=serializers.ChoiceField(ENDPOINTS), default=None, allow_null=True
    )
    networks = serializers.ListField(child=serializers.CharField(), default=())
    priority = serializers.ChoiceField(
        [str(one) for one in Priority],
        default=None,
        allow_null=True,
        help_text="The most urgent of its calls; null is its tenant's",
    )
    expires_at = serializers.DateTimeField(default=None, allow_null=True)


class Tenants(Noun):
    serializer_class = TenantShape

    def rows(self) -> Rows:
        return Rows(facts.tenant_count(), facts.tenants)

    @extend_schema(parameters=[NAME])
    def retrieve(self, request: Request, name: str) -> Response:
        return self.render(facts.tenant(name), f"there is no tenant {name!r}")

    @extend_schema(parameters=[NAME], request=TenantForm)
    def update(self, request: Request, name: str) -> Response:
        """Make the tenant what is sent, new or not; one from the archive comes back."""
        actions.save_tenant(_tenant(name, read(TenantForm, request)), **self.who())
        return self.retrieve(request, name)

    @extend_schema(parameters=[NAME])
    def destroy(self, request: Request, name: str) -> Response:
        """Archive the tenant: its keys open no door any more, its usage stays."""
        actions.archive_tenant(name, **self.who())
        return Response(status=204)


def _tenant(name: str, body: dict) -> TenantWanted:
    limits = Limits(**(body.pop("limits", None) or {}))
    budget = body.pop("budget", None)
    return TenantWanted(name, limits=limits, budget=budget and BudgetWanted(**budget), **body)


class Keys(Noun):
    serializer_class = KeyShape
    lookup_field = "id"
    lookup_value_converter = "int"

    def rows(self) -> Rows:
        tenant = named(self.request, "tenant")
        return Rows(facts.key_count(tenant), lambda **span: facts.keys(tenant, **span))

    @extend_schema(parameters=[TENANT])
    def list(self, request: Request) -> Response:
        """Active keys first; none with its secret."""
        return super().list(request)

    @extend_schema(request=KeyForm, responses={201: NewKeyShape})
    def create(self, request: Request) -> Response:
        """Make a key. Its secret is in this answer and in no other."""
        made = actions.create_key(**read(KeyForm, request), **self.who())
        answer = NewKeyShape(made).data
        return Response(answer, status=201, headers={"Cache-Control": "no-store"})

    @extend_schema(parameters=[ID])
    def destroy(self, request: Request, id: int) -> Response:
        """Revoke the key for ever: gateways refuse it within a second."""
        actions.revoke_key(id, **self.who())
        return Response(status=204)
