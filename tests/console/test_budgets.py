"""Budgets in use and their alerts on pages and over REST."""

import pytest
from django.contrib.auth import get_user_model
from rest_framework.test import APIClient

from control.metering.alerts import actions
from control.models import Budget, BudgetAlert
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
