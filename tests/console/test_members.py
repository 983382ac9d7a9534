"""People of a tenant see its pages and no other's, and nothing that is an operator's."""

import base64
import re
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from console.access import CLOSE_REFUSED
from control.metering.ingest import ship
from control.models import AuditEntry, Invoice, Key, Tenant, TenantMember, UsageEvent
from control.tenancy.actions import archive_tenant
from control.tenancy.members import actions
from control.tenancy.members.facts import tenant_of
from tests.console.conftest import BY
from tests.console.sockets import Socket
from tests.metering import conftest as metering
from tests.metering.conftest import AT, House, a_house, spool
from tests.metering.invoices.months import close

PASSWORD = "a-long-secret-of-bob"
OWN = ["/own/", "/own/calls/", "/own/budgets/", "/own/invoices/", "/own/password/"]
FILLED = {"slug": "acme", "int": "1", "str": "a", "path": "a"}  # by the kind of blank
OPEN = ("/login/", "/logout/", "/health", "/v1/usage", "/password/", "/own/")


def operators_addresses() -> list[str]:
    """Every address there is, of pages and API, but those that anybody or a member may open."""
    found = []

    def walk(patterns: list, before: str) -> None:
        for pattern in patterns:
            route = before + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                walk(pattern.url_patterns, route)
            elif isinstance(pattern, URLPattern):
                filled = re.sub(r"<(?:(\w+):)?\w+>", lambda m: FILLED.get(m[1], "a"), route)
                found.append(f"/{filled}")

    walk(get_resolver().url_patterns, "")
    return sorted({one for one in found if not one.startswith(OPEN)})


house = metering.house  # a tenant with a price


@pytest.fixture
def acme(house, tmp_path) -> House:
    """Two tenants with a call each."""
    rival = a_house("rival")
    began = {"started_at": AT.timestamp(), "ended_at": AT.timestamp() + 1}
    spool(tmp_path, house.close("c-acme", **began), rival.close("c-rival", **began))
    ship(tmp_path, (), AT)
    return house


@pytest.fixture
def bob(house):
    actions.add_member("acme", "bob", **BY)
    user = get_user_model().objects.get(username="bob")
    user.set_password(PASSWORD)
    user.save()
    return user


@pytest.fixture
def member(client, bob) -> Client:
    client.force_login(bob)
    return client


def test_there_are_addresses_of_pages_and_of_the_api():
    found = operators_addresses()
    assert {"/", "/tenants/", "/api/tenants/", "/api/usage/", "/audit/"} <= set(found)
    assert len(found) > 50


@pytest.mark.parametrize("method", ["get", "post", "put", "delete"])
def test_a_member_is_refused_at_every_address_of_operators(member, method):
    let_in = {}
    for address in operators_addresses():
        answer = getattr(member, method)(address)
        if answer.status_code != 403:
            let_in[address] = (answer.status_code, answer.headers.get("Location"))
    assert let_in == {"/": (302, "/own/")}
    assert set(AuditEntry.objects.values_list("action", flat=True)) == {"add member"}


@pytest.mark.parametrize("address", ["/api/tenants/", "/api/usage/", "/api/keys/", "/api/schema/"])
def test_a_members_password_is_none_of_the_api(client, bob, address):
    basic = base64.b64encode(f"bob:{PASSWORD}".encode()).decode()
    assert client.get(address, headers={"authorization": f"Basic {basic}"}).status_code == 403


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/live/part/overview/", "/live/charts/", "/live/playground/"])
async def test_a_member_is_refused_at_every_socket(client, path):
    def signed_in() -> str:
        actions.add_member(a_house().tenant.name, "bob", **BY)
        client.force_login(get_user_model().objects.get(username="bob"))
        return client.cookies.output(header="", sep=";").strip()

    cookie = await sync_to_async(signed_in)()
    assert await Socket(path, cookie=cookie).connect() == CLOSE_REFUSED


@pytest.mark.parametrize("page", OWN)
def test_a_members_pages_show_no_operators_menu(member, page):
    shown = member.get(page)
    assert shown.status_code == 200
    text = shown.content.decode()
    for other in ("rival", 'href="/tenants/', 'href="/audit/', 'href="/nodes/', 'href="/keys/'):
        assert other not in text


@pytest.mark.parametrize(
    ("page", "entries"),
    [("/own/", ["own"]), ("/own/invoices/none/", ["own-invoices"]), ("/nowhere", [])],
)
def test_the_menu_of_a_member_is_its_own_also_where_nothing_is(member, page, entries):
    menu = member.get(page).context["menu"]
    assert {entry.address.split("-")[0] for entry in menu} == {"own"}
    assert [entry.address for entry in menu if entry.active] == entries


def test_who_has_not_signed_in_is_shown_no_menu(client, db):
    shown = client.get("/nowhere")
    assert shown.status_code == 404
    assert b"nav-link-title" not in shown.content


def test_a_member_sees_its_tenants_figures_and_calls(member, acme):
    shown = member.get("/own/?month=2026-11&group_by=model").content.decode()
    assert "gemma" in shown
    assert "0.000285" in shown
    shown = member.get("/own/calls/?month=2026-11").content.decode()
    assert "c-acme" in shown
    assert "c-rival" not in shown


@pytest.mark.parametrize("name", ["key", "model", "project", "tenant"])
def test_no_filter_leads_to_another_tenant(member, acme, name):
    for page in ("/own/", "/own/calls/"):
        shown = member.get(f"{page}?month=2026-11&{name}=rival").content.decode()
        assert "c-rival" not in shown


def test_a_member_takes_its_calls_and_invoices_away_and_no_others(member, acme):
    span = f"from={AT:%Y-%m-%d}&to={AT + timedelta(days=1):%Y-%m-%d}"
    page = member.get(f"/own/calls/?{span}").content.decode()
    assert f'href="/own/calls.csv?from={AT:%Y-%m-%d}' in page
    file = read(member.get(f"/own/calls.csv?{span}&tenant=rival"))
    assert "c-acme" in file
    assert "rival" not in file
    for tenant in (acme.tenant, Tenant.objects.get(name="rival")):
        close(tenant, AT)
    own, other = (Invoice.objects.get(tenant__name=name).number for name in ("acme", "rival"))
    assert f"/own/invoices/{own}/lines.csv" in member.get(f"/own/invoices/{own}/").content.decode()
    assert own in read(member.get(f"/own/invoices/{own}/lines.csv"))
    assert member.get(f"/own/invoices/{other}/lines.csv").status_code == 404


def read(answer) -> str:
    assert answer["Content-Type"].startswith("text/csv")
    return async_to_sync(_gathered)(answer.streaming_content).decode()


async def _gathered(chunks) -> bytes:
    return b"".join([chunk async for chunk in chunks])


def test_another_tenants_invoice_is_not_there(member):
    assert member.get("/own/invoices/none/").status_code == 404


@pytest.mark.parametrize("query", ["month=x", "from=2026-11-05&to=2026-11-01", "group_by=tenant"])
def test_a_filter_that_makes_no_sense_is_said_and_shows_this_month(member, query):
    shown = member.get(f"/own/?{query}")
    assert shown.status_code == 200
    assert b"alert-danger" in shown.content


def test_members_are_added_with_a_link_choose_a_password_and_sign_in(console, acme, operator):
    asked = {"do": "add", "username": "bob@example.com"}
    shown = console.post("/tenants/acme/members/", asked, follow=True).content.decode()
    link = re.search(r"http://testserver(/password/[^\s<]+/)", shown)[1]
    assert "has chosen no password yet" in shown
    browser = Client()
    door = browser.get(link, follow=True)
    form = door.redirect_chain[-1][0]
    weak = browser.post(form, {"new_password1": "short", "new_password2": "short"})
    assert b"errorlist" in weak.content
    given = {"new_password1": PASSWORD, "new_password2": PASSWORD}
    assert browser.post(form, given)["Location"] == "/login/"
    credentials = {"username": "bob@example.com", "password": PASSWORD}
    assert browser.post("/login/", credentials)["Location"] == "/own/"
    assert browser.get("/own/").status_code == 200
    assert b"no longer good" in Client().get(link, follow=True).content
    assert AuditEntry.objects.get(action="add member").by == "ann"


def test_a_removed_member_is_signed_out_at_once(console, member, acme, bob):
    browser = Client()
    browser.force_login(bob)
    assert browser.get("/own/").status_code == 200
    operator = Client()
    operator.force_login(get_user_model().objects.create_user("eve", is_staff=True))
    operator.post("/tenants/acme/members/", {"do": "remove", "username": "bob"})
    assert not TenantMember.objects.exists()
    assert browser.get("/own/").status_code == 302


def test_members_of_an_archived_tenant_see_nothing(member, bob):
    archive_tenant("acme", **BY)
    assert tenant_of(bob) is None
    assert member.get("/own/").status_code == 403


@pytest.mark.parametrize("asked", [{}, {"do": "add"}, {"do": "add", "username": "<b>"},
                                   {"do": "remove", "username": "nobody"}])  # fmt: skip
def test_what_is_wrong_with_a_member_is_said(console, acme, asked):
    shown = console.post("/tenants/acme/members/", asked, follow=True).content.decode()
    assert "alert-danger" in shown
    assert not TenantMember.objects.exists()


def test_an_operator_is_no_member_and_keeps_its_name(console, acme, operator):
    shown = console.post(
        "/tenants/acme/members/", {"do": "add", "username": "ann"}, follow=True
    ).content.decode()
    assert "there is a user" in shown
    assert console.get("/own/").status_code == 403
    assert get_user_model().objects.get(username="ann").is_staff


def test_figures_of_all_keys_and_days_add_up_to_the_events(member, acme):
    total = sum(event.amount_pico for event in UsageEvent.objects.filter(tenant=acme.tenant))
    assert total == 285 * 10**6
    for group in ("day", "key", "project", "model"):
        assert "0.000285" in member.get(f"/own/?month=2026-11&group_by={group}").content.decode()
    assert Key.objects.filter(tenant=acme.tenant).count() == 1
