"""Months, invoices, credits and corrections over REST."""

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.base import TENANT, Form, OperatorsOnly, named, read
from control.metering.invoices import actions, corrections, facts, terms
from control.metering.invoices.wanted import TermsWanted
from control.metering.rules import Tokens

ROWS = 1000


class PeriodShape(serializers.Serializer):
    tenant = serializers.CharField()
    month = serializers.CharField(help_text="Of the tenant's calendar")
    begins_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    timezone = serializers.CharField()
    state = serializers.CharField()
    closed_at = serializers.DateTimeField(allow_null=True)
    calls = serializers.IntegerField(help_text="Counted when it is closed")
    unpriced_calls = serializers.IntegerField()
    invoices = serializers.ListField(child=serializers.ListField(child=serializers.CharField()))
    why_not = serializers.ListField(
        child=serializers.CharField(), help_text="What stands against closing it"
    )


class LineShape(serializers.Serializer):
    position = serializers.IntegerField()
    category = serializers.CharField()
    is_correction = serializers.BooleanField()
    project = serializers.CharField()
    sku = serializers.CharField()
    description = serializers.CharField()
    tokens = serializers.IntegerField(allow_null=True)
    unit_price = serializers.CharField(help_text="Per million tokens")
    exact = serializers.CharField()
    rounded = serializers.CharField()


class InvoiceShape(serializers.Serializer):
    number = serializers.CharField()
    tenant = serializers.CharField()
    month = serializers.CharField()
    currency = serializers.CharField()
    begins_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    issuer = serializers.CharField()
    exact = serializers.CharField()
    rounding = serializers.CharField()
    payable = serializers.CharField()
    issued_at = serializers.DateTimeField()
    by = serializers.CharField()
    rows_hash = serializers.CharField()
    lines = LineShape(many=True)


class GoodwillForm(Form):
    tenant = serializers.CharField()
    amount = serializers.CharField(help_text='As in "12.50"')
    currency = serializers.CharField()
    token = serializers.CharField(help_text="The same one grants once")
    reason = serializers.CharField(help_text="Stands on the invoice")


class CorrectionForm(Form):
    tenant = serializers.CharField()
    call_id = serializers.CharField()
    input = serializers.IntegerField(default=0, help_text="Cached ones included")
    cached_input = serializers.IntegerField(default=0)
    output = serializers.IntegerField(default=0, help_text="Reasoning included")
    reasoning = serializers.IntegerField(default=0)
    reason = serializers.CharField()


class TermsForm(Form):
    issuer = serializers.CharField(help_text="The legal entity that invoices")
    provider = serializers.CharField(default="", allow_blank=True)
    host = serializers.CharField(default="", allow_blank=True)
    region_id = serializers.CharField(default="", allow_blank=True)
    region_name = serializers.CharField(default="", allow_blank=True)
    close_after_hours = serializers.IntegerField(
        default=None, allow_null=True, help_text="After a month's end; null is only by hand"
    )


class Periods(OperatorsOnly, APIView):
    @extend_schema(parameters=[TENANT], responses=PeriodShape(many=True))
    def get(self, request: Request) -> Response:
        """The newest thousand."""
        found = facts.period_list(timezone.now(), named(request, "tenant"), count=ROWS)
        return Response(PeriodShape(found, many=True).data)


class Close(OperatorsOnly, APIView):
    @extend_schema(request=None, responses=InvoiceShape(many=True))
    def post(self, request: Request, tenant: str, month: str) -> Response:
        """Freeze a month and issue its invoices; a closed one is answered with those it has."""
        issued = actions.close(facts.period_named(tenant, month), **self.who())
        found = [facts.invoice(one.number) for one in issued]
        return Response(InvoiceShape(found, many=True).data)


class Invoices(OperatorsOnly, APIView):
    @extend_schema(parameters=[TENANT], responses=InvoiceShape(many=True))
    def get(self, request: Request) -> Response:
        """The newest thousand, without their lines."""
        found = facts.invoices(named(request, "tenant"), count=ROWS)
        return Response(InvoiceShape(found, many=True).data)


class OneInvoice(OperatorsOnly, APIView):
    @extend_schema(responses=InvoiceShape)
    def get(self, request: Request, number: str) -> Response:
        return Response(InvoiceShape(facts.invoice(number)).data)


class Goodwill(OperatorsOnly, APIView):
    @extend_schema(request=GoodwillForm, responses={204: None})
    def post(self, request: Request) -> Response:
        """Let a tenant off a sum on the invoice of the month that is open."""
        body = read(GoodwillForm, request)
        who = self.who() | {"reason": body["reason"]}
        money = (body["amount"], body["currency"])
        actions.grant_credit(body["tenant"], money, body["token"], **who)
        return Response(status=204)


class Corrections(OperatorsOnly, APIView):
    @extend_schema(request=CorrectionForm, responses={200: OpenApiTypes.OBJECT})
    def post(self, request: Request) -> Response:
        """Bill a call by other counts: a reversal and a new row, in the month that is open."""
        body = read(CorrectionForm, request)
        counts = ("input", "cached_input", "output", "reasoning")
        tokens = Tokens(*(body[name] for name in counts))
        who = self.who() | {"reason": body["reason"]}
        kinds = corrections.correct_call((body["tenant"], body["call_id"]), tokens, **who)
        return Response({"kinds": kinds})


class Terms(OperatorsOnly, APIView):
    @extend_schema(responses=TermsForm)
    def get(self, request: Request) -> Response:
        return Response(TermsForm(facts.terms()).data)

    @extend_schema(request=TermsForm, responses=TermsForm)
    def put(self, request: Request) -> Response:
        """Who invoices and offers, and where it runs, on invoices that are issued from now on."""
        terms.save_terms(TermsWanted(**read(TermsForm, request)), **self.who())
        return self.get(request)
