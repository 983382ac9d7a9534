"""Prepaid credit over REST and on the command line."""

import io

import pytest
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from control.metering.rules import PICO
from control.models import Account

pytestmark = pytest.mark.django_db
TEN = {"amount": "10", "currency": "USD", "reason": "invoice 7", "reference": "inv-7"}


@pytest.fixture
def prepaid(api: APIClient) -> APIClient:
    assert api.put("/api/tenants/acme/", {"prepaid": "USD"}, format="json").status_code == 200
    return api


def test_credit_is_added_once_a_reference_and_shown(prepaid):
    for _ in range(2):
        made = prepaid.post("/api/tenants/acme/credit/", TEN, format="json")
        assert made.status_code == 201
    found = prepaid.get("/api/tenants/acme/credit/").json()
    assert [row["balance"] for row in found["balances"]] == ["10"]
    [entry] = found["entries"]
    assert (entry["kind"], entry["amount"], entry["reason"]) == ("purchase", "10", "invoice 7")


def test_the_ledgers_accounts_are_shown_beside_it(prepaid):
    prepaid.post("/api/tenants/acme/credit/", TEN, format="json")
    Account.objects.update(leased=4 * PICO)
    found = prepaid.get("/api/tenants/acme/credit/").json()
    assert found["accounts"] == [
        {"name": "held", "currency": "USD", "balance": "-4"},
        {"name": "prepaid", "currency": "USD", "balance": "-6"},
        {"name": "receivable", "currency": "USD", "balance": "10"},
    ]


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ({"amount": "0"}, 400, "amount"),
        ({"currency": "EUR"}, 400, "currency"),
        ({"kind": "gift"}, 400, "kind"),
        ({"reason": ""}, 400, "reason"),
        ({"kind": "refund"}, 400, "amount"),
        ({"bonus": 1}, 400, "bonus"),
    ],
)
def test_bad_credit_names_its_field(prepaid, changes, status, field):
    answer = prepaid.post("/api/tenants/acme/credit/", TEN | changes, format="json")
    assert answer.status_code == status
    assert [problem["field"] for problem in answer.json()["error"]["problems"]] == [field]


def test_nobody_has_no_credit(api):
    assert api.get("/api/tenants/nobody/credit/").status_code == 404
    assert api.post("/api/tenants/nobody/credit/", TEN, format="json").status_code == 404


def test_weir_credit_adds_and_shows(prepaid):
    out = io.StringIO()
    named = ["--tenant", "acme", "--amount", "2.50", "--currency", "USD", "--reason", "sorry"]
    call_command("credit", "add", *named, "--kind", "goodwill", stdout=out)
    assert out.getvalue().startswith("2.5 USD left, 0 of it held by calls\n")
    assert "goodwill  2.5 USD" in out.getvalue()
    with pytest.raises(CommandError, match="no tenant"):
        call_command("credit", "show", "--tenant", "nobody", stdout=out)
