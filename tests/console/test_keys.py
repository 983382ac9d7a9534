"""Keys are made and ended by the console; a secret is seen once."""

import pytest

from control.models import Key
from control.models.sealing import digest_of
from control.states import KeyState
from control.tenancy import actions
from control.tenancy.rules import TenantWanted
from tests.console.conftest import BY


@pytest.fixture
def acme(db):
    actions.save_tenant(TenantWanted("acme"), **BY)


def test_the_secret_is_shown_once_and_never_again(console, acme):
    shown = console.post("/keys/", {"tenant": "acme", "name": "ci"})
    secret = shown.context["new"].secret
    assert secret in shown.content.decode()
    assert shown["Cache-Control"] == "no-store"
    assert Key.objects.get().digest == digest_of(secret)
    assert secret not in console.get("/keys/").content.decode()


def test_a_key_may_be_for_some_routes_only(console, acme, fleet):
    fleet(1)
    console.post("/keys/", {"tenant": "acme", "name": "ci", "routes": ["route-1"]})
    assert Key.objects.get(tenant__name="acme").routes == ["route-1"]


def test_a_key_for_a_route_that_is_not_there_is_not_made(console, acme, fleet):
    fleet(1)
    shown = console.post("/keys/", {"tenant": "acme", "name": "ci", "routes": ["route-1", "gone"]})
    assert "gone" in str(shown.context["form"].errors["routes"])
    assert not Key.objects.filter(tenant__name="acme").exists()


def test_a_key_says_which_endpoints_whence_and_how_urgent(console, acme):
    scope = {"endpoints": ["embeddings"], "networks": "192.0.2.0/24, ::1", "priority": "batch"}
    console.post("/keys/", {"tenant": "acme", "name": "ci", **scope})
    key = Key.objects.get()
    assert (key.endpoints, key.networks) == (["embeddings"], ["192.0.2.0/24", "::1"])
    shown = console.get("/keys/").content.decode()
    table = shown[shown.index("<table") :]
    for word in ("embeddings", "192.0.2.0/24", "::1", "batch", "never"):
        assert word in table


@pytest.mark.parametrize(
    "given",
    [
        {"tenant": "none", "name": "ci"},
        {"tenant": "acme", "name": "no name"},
        {"tenant": "acme"},
        {"tenant": "acme", "name": "ci", "networks": "192.0.2.1/24"},
    ],
)
def test_a_key_that_cannot_be_is_refused_beside_its_field(console, acme, given):
    shown = console.post("/keys/", given)
    assert shown.context["new"] is None
    assert b"errorlist" in shown.content
    assert not Key.objects.exists()


def test_a_second_key_of_a_name_is_refused_and_says_what_to_do(console, acme):
    console.post("/keys/", {"tenant": "acme", "name": "ci"})
    shown = console.post("/keys/", {"tenant": "acme", "name": "ci"})
    assert b"revoke or rotate" in shown.content


def test_a_revoked_key_stays_visible(console, acme):
    new = actions.create_key(tenant="acme", name="ci", **BY)
    console.post(f"/keys/{new.key_id}/revoke/")
    assert Key.objects.get().state == KeyState.REVOKED
    shown = console.get("/keys/").content.decode()
    assert "revoked" in shown
    assert "/revoke/" not in shown


def test_keys_are_filtered_by_tenant(console, acme, fleet):
    fleet(1)
    actions.create_key(tenant="acme", name="only-here", **BY)
    shown = console.get("/keys/?tenant=tenant-1").content.decode()
    assert "only-here" not in shown
