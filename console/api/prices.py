"""Price books over REST: in force, history, preview, proposal, margins, new versions."""

from dataclasses import asdict

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.base import Form, OperatorsOnly, read
from control.metering.prices import actions, facts, traffic
from control.metering.prices.proposal import MARGIN_PERCENT_MAX
from control.metering.prices.wanted import PRIORITIES, ROWS_MAX, PriceWanted, price_wanted
from control.states import Interrupted

MODEL = OpenApiParameter("model", str, OpenApiParameter.PATH)


class PerMillion(Form):
    """Amounts as text with six decimals at most; never a float."""

    input = serializers.CharField(max_length=20)
    cached_input = serializers.CharField(max_length=20, required=False, help_text="As input")
    output = serializers.CharField(max_length=20)
    reasoning = serializers.CharField(max_length=20, required=False, help_text="As output")


class RowForm(Form):
    priority = serializers.ChoiceField(PRIORITIES, required=False, help_text="Every other one")
    from_tokens = serializers.IntegerField(min_value=0, required=False)
    per_million = PerMillion()


class PriceForm(Form):
    model = serializers.CharField(max_length=96)
    currency = serializers.CharField(max_length=3)
    per_million = PerMillion()
    rows = RowForm(many=True, required=False, max_length=ROWS_MAX)
    tenant = serializers.CharField(max_length=63, required=False, help_text="Everyone")
    interrupted = serializers.ChoiceField([str(one) for one in Interrupted], required=False)
    step = serializers.CharField(max_length=20, required=False)
    valid_from = serializers.DateTimeField(required=False, help_text="Now")
    valid_until = serializers.DateTimeField(required=False)
    below_cost_reason = serializers.CharField(max_length=1000, required=False)


class WithdrawForm(Form):
    tenant = serializers.CharField(max_length=63, required=False, help_text="Everyone's book")
    valid_from = serializers.DateTimeField(required=False, help_text="Now")


class RowShape(serializers.Serializer):
    priority = serializers.CharField(help_text="Empty is every other one")
    from_tokens = serializers.IntegerField()
    input = serializers.CharField()
    cached_input = serializers.CharField()
    output = serializers.CharField()
    reasoning = serializers.CharField(help_text="Empty is as output")


class BookShape(serializers.Serializer):
    model = serializers.CharField()
    tenant = serializers.CharField(help_text="Empty is everyone without a book of their own")
    version = serializers.IntegerField()
    currency = serializers.CharField()
    rows = RowShape(many=True)
    interrupted = serializers.CharField()
    step = serializers.CharField()
    valid_from = serializers.DateTimeField()
    valid_until = serializers.DateTimeField(allow_null=True)
    state = serializers.CharField()
    created_at = serializers.DateTimeField(allow_null=True)
    created_by = serializers.CharField()
    reason = serializers.CharField()
    below_cost_reason = serializers.CharField()
    cost = serializers.DictField(allow_null=True)


class ChangeShape(serializers.Serializer):
    tenant = serializers.CharField()
    calls = serializers.IntegerField()
    charged = serializers.ListField(child=serializers.CharField())
    now = serializers.ListField(child=serializers.CharField())
    new = serializers.ListField(child=serializers.CharField())
    more = serializers.CharField(allow_null=True, help_text="null between two currencies")


class PreviewShape(serializers.Serializer):
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    begins = serializers.DateTimeField()
    currency = serializers.CharField()
    more = serializers.CharField(allow_null=True)
    others = serializers.IntegerField(help_text="Tenants with a book of their own")
    changes = ChangeShape(many=True)


class ProposalShape(serializers.Serializer):
    model = serializers.CharField()
    currency = serializers.CharField()
    margin_percent = serializers.IntegerField()
    step = serializers.CharField()
    cost = serializers.DictField(allow_null=True)
    cost_at_wanted_use = serializers.DictField(allow_null=True)
    practised = serializers.DictField(allow_null=True)
    at_wanted_use = serializers.DictField(allow_null=True)
    utilisation = serializers.CharField(allow_null=True)
    wanted_use = serializers.CharField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    formula = serializers.CharField()
    reason = serializers.CharField(help_text="Why there is none")


class ProposalQuery(Form):
    margin_percent = serializers.IntegerField(
        min_value=0, max_value=MARGIN_PERCENT_MAX, default=facts.MARGIN_PERCENT
    )


class MarginShape(serializers.Serializer):
    model = serializers.CharField()
    tenant = serializers.CharField()
    priority = serializers.CharField()
    from_tokens = serializers.IntegerField()
    token_class = serializers.CharField()
    currency = serializers.CharField()
    price = serializers.CharField()
    cost = serializers.CharField(allow_null=True)
    margin_percent = serializers.CharField(allow_null=True)
    is_below = serializers.BooleanField()
    below_cost_reason = serializers.CharField()
    note = serializers.CharField()


class Prices(OperatorsOnly, APIView):
    @extend_schema(responses=BookShape(many=True))
    def get(self, _request: Request) -> Response:
        """All books in force, then versions to come."""
        return Response(BookShape(facts.books(timezone.now()), many=True).data)

    @extend_schema(request=PriceForm, responses={201: BookShape(many=True)})
    def post(self, request: Request) -> Response:
        """A new version of a book; answers its history. One below cost needs below_cost_reason."""
        wanted = _wanted(request)
        actions.save_price(wanted, **self.who())
        return _history(wanted.model, status=201)


class PricePreview(OperatorsOnly, APIView):
    @extend_schema(request=PriceForm, responses=PreviewShape)
    def post(self, request: Request) -> Response:
        """What each tenant's calls of last month would have cost by it; nothing is saved."""
        return Response(PreviewShape(traffic.preview(_wanted(request), timezone.now())).data)


class Margins(OperatorsOnly, APIView):
    @extend_schema(responses=MarginShape(many=True))
    def get(self, _request: Request) -> Response:
        """Each price in force beside the cost of its class in the last 30 days."""
        return Response(MarginShape(facts.margins(timezone.now()), many=True).data)


class PriceHistory(OperatorsOnly, APIView):
    @extend_schema(parameters=[MODEL], responses=BookShape(many=True))
    def get(self, _request: Request, model: str) -> Response:
        """All versions of a model's books, newest first."""
        return _history(model)

    @extend_schema(parameters=[MODEL], request=WithdrawForm, responses=BookShape(many=True))
    def delete(self, request: Request, model: str) -> Response:
        """From an instant on the book holds no more; what was charged stays."""
        given = read(WithdrawForm, request)
        who = self.who()
        begins = given.get("valid_from")
        actions.withdraw_price(model, given.get("tenant", ""), begins=begins, **who)
        return _history(model)


class PriceProposal(OperatorsOnly, APIView):
    @extend_schema(
        parameters=[MODEL, OpenApiParameter("margin_percent", int)], responses=ProposalShape
    )
    def get(self, request: Request, model: str) -> Response:
        """Prices from the cost of the last 30 days, at practised and at wanted use."""
        query = ProposalQuery(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        margin_percent = query.validated_data["margin_percent"]
        return Response(ProposalShape(facts.proposal(model, timezone.now(), margin_percent)).data)


def _wanted(request: Request) -> PriceWanted:
    given = read(PriceForm, request)
    model, currency = given.pop("model"), given.pop("currency")
    per_million, rows = given.pop("per_million"), given.pop("rows", [])
    return price_wanted(model, currency, per_million, further=rows, terms=given)


def _history(model: str, status: int = 200) -> Response:
    found = [asdict(one) for one in facts.history(model, timezone.now())]
    return Response(BookShape(found, many=True).data, status=status)
