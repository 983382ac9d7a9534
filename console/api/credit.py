"""A tenant's prepaid credit over REST: what is left, what came in, and a top-up."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.base import NAME, Form, OperatorsOnly, read
from control.metering.prepaid import actions, facts
from control.metering.prepaid.rules import CreditWanted
from control.states import CreditKind
from control.tenancy.facts import tenant


class CreditForm(Form):
    amount = serializers.DecimalField(max_digits=20, decimal_places=6)
    currency = serializers.CharField()
    kind = serializers.ChoiceField([str(one) for one in CreditKind], default="purchase")
    reason = serializers.CharField(max_length=500)
    reference = serializers.CharField(
        default="", allow_blank=True, help_text="The same one a second time changes nothing"
    )


class BalanceShape(serializers.Serializer):
    currency = serializers.CharField()
    balance = serializers.CharField(help_text="Bought, less what stored calls have cost")
    held = serializers.CharField(help_text="Of it, by gateways for calls that run")
    free = serializers.CharField()
    spent = serializers.CharField()
    is_open = serializers.BooleanField(help_text="Calls are paid for by it")


class EntryShape(serializers.Serializer):
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    amount = serializers.CharField()
    currency = serializers.CharField()
    by = serializers.CharField()
    reason = serializers.CharField()


class AccountShape(serializers.Serializer):
    name = serializers.CharField()
    currency = serializers.CharField()
    balance = serializers.CharField(help_text="Debits are positive; all of a currency sum to 0")


class CreditShape(serializers.Serializer):
    balances = BalanceShape(many=True)
    entries = EntryShape(many=True)
    accounts = AccountShape(many=True, help_text="Of the tenant in the ledger")


class Credit(OperatorsOnly, APIView):
    @extend_schema(parameters=[NAME], responses=CreditShape)
    def get(self, request: Request, name: str) -> Response:
        """What is left in each currency, the newest 50 entries, and how the ledger stands."""
        if tenant(name) is None:
            raise NotFound(f"there is no tenant {name!r}")
        at = self.who()["at"]
        found = {
            "balances": facts.credit(name, at),
            "entries": facts.entries(name),
            "accounts": facts.accounts(name),
        }
        return Response(CreditShape(found).data)

    @extend_schema(parameters=[NAME], request=CreditForm, responses={201: CreditShape})
    def post(self, request: Request, name: str) -> Response:
        """Add credit that was bought or is given, or take back what is free."""
        body = read(CreditForm, request)
        who = self.who() | {"reason": body.pop("reason")}
        actions.add_credit(CreditWanted(name, **body), **who)
        response = self.get(request, name)
        response.status_code = 201
        return response
