"""The first login and key: made once, kept closed, shown again, never wrong."""

import stat

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from control.management.local import first
from control.management.local.home import Home
from control.models import Key, Project, Tenant
from control.tenancy import actions

pytestmark = pytest.mark.django_db


@pytest.fixture
def home(tmp_path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


@pytest.fixture
def acme() -> str:
    tenant = Tenant.objects.create(name="acme")
    Project.objects.create(tenant=tenant, name="default")
    return tenant.name


def key_of(home: Home, tenant: str, made: str | None = None) -> first.Secret:
    return first.key(home, tenant, made, at=timezone.now())


def test_the_operator_can_log_in_with_what_the_card_shows(home):
    shown = first.operator(home)
    user = get_user_model().objects.get(username="operator")
    assert user.check_password(shown.text)
    assert stat.S_IMODE((home.path / "operator").stat().st_mode) == 0o600
    assert first.operator(home) == shown


def test_a_password_that_was_changed_is_not_shown_wrongly(home):
    first.operator(home)
    user = get_user_model().objects.get(username="operator")
    user.set_password("another one")
    user.save()
    shown = first.operator(home)
    assert shown.text == ""
    assert "weir changepassword operator" in shown.note


def test_a_new_database_gets_the_password_of_the_home(home):
    shown = first.operator(home)
    get_user_model().objects.all().delete()
    assert first.operator(home) == shown


def test_a_key_is_made_for_the_first_tenant_and_shown_again(home, acme):
    shown = key_of(home, acme)
    assert Key.objects.get(tenant__name=acme).name == "first"
    assert stat.S_IMODE((home.path / "first-key").stat().st_mode) == 0o600
    assert key_of(home, acme) == shown
    assert Key.objects.count() == 1


def test_a_key_that_the_file_made_is_the_one_that_is_shown(home, acme):
    made = actions.create_key(tenant=acme, name="ci", by="test", reason="", at=timezone.now())
    assert key_of(home, acme, made.secret).text == made.secret
    assert key_of(home, acme).text == made.secret
    assert Key.objects.count() == 1


def test_a_revoked_key_is_not_shown_and_the_way_out_is(home, acme):
    key_of(home, acme)
    key = Key.objects.get(tenant__name=acme)
    actions.revoke_key(key.pk, by="test", reason="", at=timezone.now())
    shown = key_of(home, acme)
    assert shown.text == ""
    assert "weir key create --tenant acme" in shown.note


def test_a_removed_file_is_not_made_again(home, acme):
    key_of(home, acme)
    (home.path / "first-key").unlink()
    assert key_of(home, acme).text == ""
    assert Key.objects.count() == 1
