"""Nobody sees the console without being an operator, by page or by socket."""

import re

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import get_resolver

from console.access import CLOSE_REFUSED, FAILURES_MAX
from tests.console.sockets import Socket

OPEN = {"login/", "health", "v1/usage", "password/<uidb64>/<token>/"}
FILLED = {"slug": "a", "name": "a", "int": "1", "str": "a", "path": "a"}  # by the kind of blank


def addresses() -> list[str]:
    """Every address of the console, with something in its blanks."""
    found = []
    for pattern in get_resolver().url_patterns:
        route = str(pattern.pattern)
        if route in OPEN or hasattr(pattern, "url_patterns"):
            continue
        route = re.sub(r"<(\w+):\w+>", lambda blank: FILLED[blank[1]], route)
        found.append(f"/{route}")
    return found


@pytest.mark.parametrize("address", addresses())
def test_a_stranger_is_sent_to_the_door(client, db, address):
    answer = client.get(address)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/login/")


@pytest.mark.parametrize("address", [a for a in addresses() if a != "/logout/"])
def test_a_user_who_is_no_operator_is_refused(client, db, address):
    client.force_login(get_user_model().objects.create_user("bob"))
    assert client.get(address).status_code == 403


def test_the_door_and_health_are_open(client, db):
    assert client.get("/login/").status_code == 200
    assert client.get("/health").content == b"ok\n"


def test_an_operator_signs_in_and_out(client, operator):
    operator.set_password("secret-of-ann")
    operator.save()
    answer = client.post("/login/", {"username": "ann", "password": "secret-of-ann"})
    assert answer["Location"] == "/"
    assert client.get("/").status_code == 200
    client.post("/logout/")
    assert client.get("/").status_code == 302


def test_who_is_no_operator_cannot_sign_in(client, db):
    get_user_model().objects.create_user("bob", password="secret-of-bob")
    answer = client.post("/login/", {"username": "bob", "password": "secret-of-bob"})
    assert b"not an operator" in answer.content


def test_guessing_passwords_has_a_limit(client, operator):
    operator.set_password("secret-of-ann")
    operator.save()
    for _ in range(FAILURES_MAX):
        client.post("/login/", {"username": "ann", "password": "guess"})
    answer = client.post("/login/", {"username": "ann", "password": "secret-of-ann"})
    assert b"wait a minute" in answer.content
    assert client.get("/").status_code == 302


def test_people_get_in_while_valkey_is_away(client, operator, settings):
    settings.REDIS_LIVE_URL = "redis://127.0.0.1:9/2"
    operator.set_password("secret-of-ann")
    operator.save()
    answer = client.post("/login/", {"username": "ann", "password": "secret-of-ann"})
    assert answer["Location"] == "/"


def test_a_form_without_its_token_is_refused(operator):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(operator)
    answer = strict.post("/keys/1/revoke/")
    assert answer.status_code == 403
    assert b"form has expired" in answer.content


def test_a_part_asked_for_by_htmx_leads_to_the_door(client, db):
    answer = client.post("/nodes/a/cordon/", headers={"HX-Request": "true"})
    assert answer["HX-Redirect"].startswith("/login/")


def test_pages_load_nothing_from_elsewhere(console):
    shown = console.get("/")
    assert "default-src 'self'" in shown["Content-Security-Policy"]
    assert b"http://" not in shown.content
    assert b"https://" not in shown.content


@pytest.mark.parametrize("address", ["charts", "part/overview", "playground"])
async def test_a_socket_without_login_is_refused(db, address):
    assert await Socket(f"/live/{address}/").connect() == CLOSE_REFUSED


async def test_a_socket_from_another_site_is_refused(db):
    assert await Socket("/live/charts/", origin="http://evil.example").connect() is not None
