"""Tenants are made and changed by the console, with their limits and budget."""

from decimal import Decimal

from control.models import Budget, CreditEntry, Quota, Tenant

GIVEN = {
    "name": "acme",
    "priority": "interactive",
    "timezone": "Europe/Berlin",
    "requests_per_minute": 600,
    "budget_amount": "500.00",
    "budget_currency": "usd",
    "budget_period": "month",
}


def test_a_tenant_is_made_with_limits_and_budget(console):
    assert console.post("/tenants/", GIVEN).status_code == 302
    tenant = Tenant.objects.get()
    assert (tenant.name, tenant.priority, tenant.timezone) == (
        "acme",
        "interactive",
        "Europe/Berlin",
    )
    assert Quota.objects.get(tenant=tenant).requests_per_minute == 600
    assert Budget.objects.get(tenant=tenant).amount == Decimal(500)
    shown = console.get("/tenants/").content.decode()
    assert "500.00 USD" in shown
    assert "requests per minute" in shown


def test_making_a_tenant_that_exists_changes_nothing(console):
    console.post("/tenants/", GIVEN)
    shown = console.post("/tenants/", GIVEN | {"requests_per_minute": 1})
    assert b"There is such a tenant" in shown.content
    assert Quota.objects.get().requests_per_minute == 600


def test_a_tenant_is_changed_whole(console):
    console.post("/tenants/", GIVEN)
    changed = GIVEN | {"requests_per_minute": "", "concurrent_calls": 4, "budget_amount": ""}
    assert console.post("/tenants/acme/", changed).status_code == 302
    quota = Quota.objects.get()
    assert (quota.requests_per_minute, quota.concurrent_calls) == (None, 4)
    assert not Budget.objects.exists()


def test_what_is_wrong_is_said_beside_its_field(console):
    shown = console.post("/tenants/", GIVEN | {"timezone": "Mars", "budget_currency": "dollars"})
    assert b"errorlist" in shown.content
    shown = console.post("/tenants/", GIVEN | {"timezone": "Mars"})
    assert b"no IANA time zone" in shown.content
    assert not Tenant.objects.exists()


def test_credit_is_entered_on_the_tenants_page_once_a_form(console):
    console.post("/tenants/", GIVEN | {"prepaid": "usd"})
    body = {"amount": "10", "kind": "purchase", "reason": "invoice 7", "reference": "form-1"}
    for _ in range(2):
        assert console.post("/tenants/acme/credit/", body).status_code == 302
    shown = console.get("/tenants/acme/").content.decode()
    assert "10 USD" in shown
    assert "invoice 7" in shown
    entry = CreditEntry.objects.get()
    assert (entry.amount_pico, entry.by) == (10 * 10**12, "ann")


def test_bad_credit_is_said_and_changes_nothing(console):
    console.post("/tenants/", GIVEN | {"prepaid": "usd"})
    body = {"amount": "10", "kind": "refund", "reason": "back", "reference": "form-1"}
    console.post("/tenants/acme/credit/", body)
    assert "of the credit is free" in console.get("/tenants/acme/").content.decode()
    assert not CreditEntry.objects.exists()
    assert console.get("/tenants/acme/credit/").status_code == 405
    assert console.post("/tenants/nobody/credit/", body).status_code == 404
