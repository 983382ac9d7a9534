"""Tenants and keys: made, changed, rotated, revoked; audited; heard by the gateways."""

from datetime import UTC, datetime, timedelta

import pytest

from control.checks import Refused
from control.models import QUOTA_FIELDS, AuditEntry, Key, Quota, SnapshotPart, Tenant
from control.models.sealing import derived, digest_of
from control.routes.compiler import compile_part
from control.states import KeyState, Part
from control.tenancy import actions
from control.tenancy.rules import KeyWanted, Limits, TenantWanted

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
WHO = {"by": "anna", "reason": "a test", "at": AT}
SECRET = "s" * 32


@pytest.fixture
def acme() -> Tenant:
    return actions.save_tenant(TenantWanted("acme"), **WHO)


def version() -> int:
    return SnapshotPart.objects.get(pk=Part.IDENTITIES).version


def identities():
    return compile_part(Part.IDENTITIES, 1)


def test_a_new_tenant_has_a_default_project_and_is_audited():
    tenant = actions.save_tenant(TenantWanted("acme", priority="interactive"), **WHO)
    assert [project.name for project in tenant.projects.all()] == ["default"]
    entry = AuditEntry.objects.get()
    assert (entry.by, entry.action, entry.subject, entry.at) == ("anna", "save tenant", "acme", AT)


def test_saving_an_equal_tenant_changes_nothing(acme):
    before = version()
    actions.save_tenant(TenantWanted("acme"), **WHO)
    assert version() == before
    assert AuditEntry.objects.count() == 1


def test_a_tenant_is_whole_so_a_limit_left_out_is_gone(acme):
    limited = TenantWanted("acme", limits=Limits(requests_per_minute=5))
    actions.save_tenant(limited, **WHO)
    assert Quota.objects.get(tenant=acme).requests_per_minute == 5
    actions.save_tenant(TenantWanted("acme"), **WHO)
    assert Quota.objects.get(tenant=acme).requests_per_minute is None


def test_a_key_is_stored_as_a_digest_and_shown_by_its_ends(acme):
    made = actions.create_key(tenant="acme", name="ci", **WHO)
    assert made.secret.startswith("weir-")
    assert len(made.secret) == 45
    key = Key.objects.get()
    assert key.digest == digest_of(made.secret)
    assert key.shown == f"{made.secret[:3]}…{made.secret[-4:]}"
    assert made.secret not in repr(made)
    assert made.secret not in str(list(AuditEntry.objects.values()))
    assert key.digest in identities().keys


def test_one_active_key_of_a_name(acme):
    first = actions.create_key(tenant="acme", name="ci", **WHO)
    with pytest.raises(Refused, match="revoke or rotate"):
        actions.create_key(tenant="acme", name="ci", **WHO)
    actions.revoke_key(first.key_id, **WHO)
    assert actions.create_key(tenant="acme", name="ci", **WHO).key_id != first.key_id


def test_k01_a_revoked_key_leaves_the_snapshot_and_revoking_again_is_no_error(acme):
    made = actions.create_key(tenant="acme", name="ci", **WHO)
    before = version()
    assert actions.revoke_key(made.key_id, **WHO)
    assert version() == before + 1
    assert identities().keys == {}
    assert not actions.revoke_key(made.key_id, **WHO)


def test_k01_a_revoked_secret_never_opens_the_door_again(acme):
    made = actions.create_key(tenant="acme", name="ci", secret=SECRET, **WHO)
    actions.revoke_key(made.key_id, **WHO)
    with pytest.raises(Refused, match="another key"):
        actions.create_key(tenant="acme", name="ci", secret=SECRET, **WHO)


def test_a_rotated_key_keeps_its_old_secret_for_a_day(acme):
    old = actions.create_key(tenant="acme", name="ci", secret=SECRET, **WHO)
    new = actions.rotate_key("acme", "ci", "t" * 32, **WHO)
    assert new.key_id == old.key_id
    keys = identities().keys
    assert keys[digest_of("t" * 32)].expires_at is None
    assert keys[digest_of(SECRET)].expires_at == (AT + timedelta(hours=24)).timestamp()


def test_rotating_to_the_same_secret_changes_nothing(acme):
    actions.create_key(tenant="acme", name="ci", secret=SECRET, **WHO)
    before = version()
    actions.rotate_key("acme", "ci", SECRET, **WHO)
    assert version() == before


def test_the_secret_of_another_key_is_refused_without_being_told(acme):
    actions.create_key(tenant="acme", name="one", secret=SECRET, **WHO)
    with pytest.raises(Refused, match="another key") as refusal:
        actions.create_key(tenant="acme", name="two", secret=SECRET, **WHO)
    assert SECRET not in str(refusal.value)


def test_archiving_a_tenant_disables_its_keys_and_saving_restores_them(acme):
    actions.create_key(tenant="acme", name="ci", secret=SECRET, **WHO)
    actions.archive_tenant("acme", **WHO)
    assert identities().keys == {}
    with pytest.raises(Refused, match="no tenant 'acme'"):
        actions.create_key(tenant="acme", name="other", **WHO)
    actions.save_tenant(TenantWanted("acme"), **WHO)
    assert list(identities().keys) == [digest_of(SECRET)]


def test_a_key_is_for_some_endpoints_from_some_networks(acme):
    scope = {"endpoints": ["embeddings"], "networks": ["192.0.2.0/24"]}
    actions.create_key(tenant="acme", name="ci", **scope, **WHO)
    [identity] = identities().keys.values()
    assert (identity.endpoints, identity.networks) == (("embeddings",), ("192.0.2.0/24",))
    before = version()
    actions.change_key(KeyWanted("acme", "ci"), **WHO)
    [identity] = identities().keys.values()
    assert (identity.endpoints, identity.networks) == (None, ())
    assert version() == before + 1


@pytest.mark.parametrize(
    ("tenants", "keys", "compiled"),
    [
        ("standard", None, "standard"),
        ("standard", "batch", "batch"),
        ("standard", "interactive", "standard"),
        ("interactive", "standard", "standard"),
    ],
)
def test_a_key_is_never_more_urgent_than_its_tenant(tenants, keys, compiled):
    actions.save_tenant(TenantWanted("acme", priority=tenants), **WHO)
    actions.create_key(tenant="acme", name="ci", priority=keys, **WHO)
    [identity] = identities().keys.values()
    assert identity.priority == compiled


def test_every_limit_reaches_the_gateways(acme):
    limits = Limits(**{name: number for number, name in enumerate(QUOTA_FIELDS, 1)})
    actions.save_tenant(TenantWanted("acme", limits=limits), **WHO)
    assert identities().scopes[f"t:{acme.pk}"].limits == limits.named


def test_limits_of_each_scope_are_ceilings_of_their_own(acme):
    made = actions.create_key(tenant="acme", name="ci", **WHO)
    actions.save_tenant(TenantWanted("acme", limits=Limits(requests_per_minute=10)), **WHO)
    actions.change_key(KeyWanted("acme", "ci", limits=Limits(concurrent_calls=1)), **WHO)
    compiled = identities()
    identity = compiled.keys[digest_of(made.secret)]
    assert identity.scopes == (f"t:{acme.pk}", f"k:{made.key_id}")
    assert compiled.scopes[f"k:{made.key_id}"].limits == {"concurrent_calls": 1}


def test_the_playground_key_is_made_once_and_stays_revoked_once_revoked():
    first = actions.ensure_playground_key(**WHO)
    assert first.secret == derived("playground")
    assert actions.ensure_playground_key(**WHO).key_id == first.key_id
    actions.revoke_key(first.key_id, **WHO)
    assert actions.ensure_playground_key(**WHO).key_id == first.key_id
    assert Key.objects.get().state == KeyState.REVOKED


def test_h06_names_with_control_characters_are_refused():
    with pytest.raises(Refused, match="is no name"):
        actions.save_tenant(TenantWanted("a\r\nset-cookie: x=1"), **WHO)
