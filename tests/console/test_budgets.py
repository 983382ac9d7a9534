"""Budgets in use and their alerts on pages and over REST."""

import pytest
from django.contrib.auth import get_user_model
from rest_framework.test import APIClient

from control.metering.alerts import actions
from control.models import Budget, BudgetAlert, SnapshotPart
from tests.metering.conftest import AT, House, a_house
from tests.metering.prepaid.test_actions import spend


@pytest.fixture
def used_up(db, monkeypatch) -> House:
    house = a_house()
    Budget.objects.create(tenant=house.tenant, amount="1.00", currency="USD")
    Budget.objects.create(key=house.key, tokens=100, mode="soft")
    actions.watch(AT)
    spend(house, 10**12)
    actions.watch(AT)
    return house


def test_alerts_are_a_banner_until_somebody_has_seen_them(console, used_up):
    for page in ("/", "/budgets/"):
        shown = console.get(page).content.decode()
        assert "100 % of the budget of tenant acme is used: 1 of 1 USD this month" in shown
    assert console.get("/budgets/seen/").status_code == 405
    one = BudgetAlert.objects.get(percent=100)
    assert console.post("/budgets/seen/", {"alert": one.pk}).status_code == 302
    assert "100 % of the budget" not in console.get("/").content.decode()
    console.post("/budgets/seen/")
    assert not BudgetAlert.objects.filter(seen_at=None).exists()
    console.get("/")  # says how many were marked
    assert 'role="alert"' not in console.get("/").content.decode()
    assert "100 % of the budget" in console.get("/budgets/").content.decode()


def test_a_tenants_page_tells_its_alerts_and_how_to_check_them(console, used_up):
    used_up.tenant.alert_url = "https://hooks.example.com/weir"
    used_up.tenant.save()
    shown = console.get("/tenants/acme/").content.decode()
    assert "80 % of the budget of tenant acme" in shown
    assert "whsec_" in shown


def test_budgets_and_alerts_over_rest(used_up):
    api = APIClient()
    api.force_authenticate(get_user_model().objects.create_user("ann", is_staff=True))
    alerts = api.get("/api/alerts/", {"tenant": "acme"}).json()
    assert [alert["percent"] for alert in alerts] == [100, 80, 50]
    assert api.post(f"/api/alerts/{alerts[0]['id']}/seen/").status_code == 204
    assert api.post("/api/alerts/99999999/seen/").status_code == 404
    assert api.get("/api/alerts/", {"tenant": "nobody"}).json() == []
    assert api.get("/api/budgets/").status_code == 200


@pytest.mark.parametrize(
    ("asked", "scope"),
    [
        ({"kind": "tenant"}, "tenant"),
        ({"kind": "project", "named": "default"}, "project"),
        ({"kind": "key", "named": "ci"}, "key"),
    ],
)
def test_a_budget_of_each_scope_is_set_and_removed_on_the_tenants_page(console, db, asked, scope):
    house = a_house()
    whole = asked | {"amount": "5", "currency": "usd", "period": "day", "mode": "soft"}
    shown = console.post("/tenants/acme/budget/", whole, follow=True).content.decode()
    assert "The budget is set." in shown
    budget = Budget.objects.get(**{scope: getattr(house, scope)})
    assert (budget.amount, budget.currency, budget.period, budget.mode) == (5, "USD", "day", "soft")
    console.post("/tenants/acme/budget/", asked | {"period": "day", "mode": "soft"})
    assert not Budget.objects.exists()


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "key", "named": "none", "tokens": "5"},
        {"kind": "project", "tokens": "5"},
        {"kind": "planet", "tokens": "5"},
        {"kind": "tenant", "amount": "5", "currency": "x"},
    ],
)
def test_what_is_wrong_with_a_budget_is_said(console, db, asked):
    a_house()
    whole = {"period": "day", "mode": "hard"} | asked
    shown = console.post("/tenants/acme/budget/", whole, follow=True).content.decode()
    assert "alert-danger" in shown
    assert not Budget.objects.exists()


def test_a_budget_of_a_key_is_set_over_rest_and_told_to_gateways(db):
    house = a_house()
    api = APIClient()
    api.force_authenticate(get_user_model().objects.create_user("ann", is_staff=True))
    before = SnapshotPart.objects.get(pk="identities").version
    body = {"key": "ci", "tokens": 1000}
    assert api.put("/api/tenants/acme/budget/", body, format="json").status_code == 204
    assert Budget.objects.get(key=house.key).tokens == 1000
    assert SnapshotPart.objects.get(pk="identities").version == before + 1
    both = body | {"project": "default"}
    assert api.put("/api/tenants/acme/budget/", both, format="json").status_code == 400
    assert api.put("/api/tenants/none/budget/", body, format="json").status_code == 404
    assert api.delete("/api/tenants/acme/budget/?key=ci").status_code == 204
    assert not Budget.objects.exists()
