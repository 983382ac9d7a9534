"""What --prune puts aside, and how it comes back."""

import pytest

from control.models import (
    CatalogModel,
    Deployment,
    Key,
    Price,
    Project,
    Replica,
    Route,
    Tenant,
    Version,
)
from control.models.sealing import digest_of
from control.routes.compiler import compile_part
from control.states import Part
from control.tenancy.actions import ensure_playground_key
from tests.apply.applying import AT, EMPTY, ONE, do, refusal, steps

pytestmark = pytest.mark.django_db


def test_prune_puts_aside_what_the_file_does_not_name_and_deletes_nothing():
    ensure_playground_key(by="web", reason="start", at=AT)
    do()
    assert steps(do(EMPTY, prune=True)) == [
        "archive route chat",
        "drain deployment d",
        "archive deployment d",
        "archive model m",
        "archive tenant acme",
    ]
    assert steps(do(EMPTY, prune=True)) == []
    kept = (Tenant, Project, Key, CatalogModel, Version, Deployment, Route, Price)
    assert all(model.objects.exists() for model in kept)
    [key] = compile_part(Part.IDENTITIES, 1).keys.values()
    assert (key.tenant, key.key) == ("operators", "playground")


def test_prune_revokes_keys_and_archives_projects_of_a_tenant_that_stays():
    do()
    text = "{apiVersion: weir/v1, tenants: [{name: acme}]}"
    found = steps(do(text, prune=True))
    assert found[0] == "change tenant acme"
    assert {"revoke key acme/ci", "archive project acme/web"} <= set(found)
    assert steps(do(text, prune=True)) == []


def test_prune_drains_first_and_archives_when_the_last_replica_ended():
    do()
    replica = Replica.objects.create(deployment=Deployment.objects.get(), generation=1)
    assert "archive deployment d" not in steps(do(EMPTY, prune=True))
    assert Deployment.objects.get().replicas_wanted == 0
    assert steps(do(EMPTY, prune=True)) == []
    Replica.objects.filter(pk=replica.pk).update(state="stopped")
    assert steps(do(EMPTY, prune=True)) == ["archive deployment d"]


def test_prune_refuses_a_file_that_leans_on_what_it_removes():
    do()
    text = "{apiVersion: weir/v1, routes: [{name: r, targets: [{deployment: d}]}]}"
    assert "'d' is not in the file, and --prune removes it" in refusal(text, prune=True)


def test_what_was_archived_comes_back_with_its_keys():
    do()
    do(EMPTY, prune=True)
    assert "restore tenant acme" in steps(do())
    assert list(compile_part(Part.IDENTITIES, 1).keys) == [digest_of(ONE)]
    assert Deployment.objects.get().replicas_wanted == 1
    assert Route.objects.get().archived_at is None
    assert steps(do()) == []
