"""What applying a service.yaml means: one transaction, whole objects, nothing deleted."""

from datetime import UTC, datetime, timedelta

import pytest

from control.apply.actions import Applied, apply
from control.apply.plan import Verb
from control.apply.wanted import BadFile
from control.models import (
    CatalogModel,
    CostRate,
    Deployment,
    Key,
    Price,
    Project,
    Quota,
    Replica,
    Route,
    Tenant,
    Version,
)
from control.models.sealing import digest_of, unseal
from control.routes.compiler import compile_part
from control.states import KeyState, Part
from control.tenancy.actions import ensure_playground_key

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
LATER = AT + timedelta(hours=1)
ONE, TWO = "one-" + "1" * 32, "two-" + "2" * 32

SERVICE = """
apiVersion: weir/v1
tenants:
  - name: acme
    limits: {requests_per_minute: 60}
    budget: {amount: "5", currency: USD}
    projects: [{name: web, limits: {concurrent_calls: 2}}]
    keys: [{name: ci, project: web, secret_env: ACME_KEY, routes: [chat]}]
models:
  - name: m
    versions:
      - name: v1
        engine: {kind: external, url: "http://127.0.0.1:9000", served_name: m, api_key_env: UP}
deployments: [{name: d, model: m, version: v1}]
routes: [{name: chat, targets: [{deployment: d}]}]
prices: [{model: m, currency: USD, per_million: {input: "0.1", output: "0.4"}}]
cost_rates: [{device: "*", currency: USD, hardware_per_hour: "2.5", pue: 1.35}]
"""
EMPTY = "apiVersion: weir/v1\n"


def do(text: str = SERVICE, *, at=AT, prune=False, carry_out=True, **environment) -> Applied:
    environment = {"ACME_KEY": ONE, "UP": "upstream", **environment}
    options = {"prune": prune, "carry_out": carry_out, "environment": environment}
    return apply(text, by="anna", reason="a test", at=at, **options)


def refusal(text: str, **options) -> str:
    with pytest.raises(BadFile) as bad:
        do(text, **options)
    return str(bad.value)


def steps(applied: Applied) -> list[str]:
    return [f"{step.verb} {step.subject}" for step in applied.plan.changes]


def test_applying_twice_changes_nothing():
    assert len(steps(do())) == 9
    versions = [compile_part(part, 1) for part in Part]
    assert steps(do(at=LATER)) == []
    assert [compile_part(part, 1) for part in Part] == versions


def test_a_plan_alone_changes_nothing():
    assert len(steps(do(carry_out=False))) == 9
    assert not Tenant.objects.exists()


def test_the_plan_names_defaults_and_differences():
    do()
    text = SERVICE.replace("    limits: {requests_per_minute: 60}\n", "")
    [step] = do(text).plan.changes
    assert (step.verb, step.subject) == (Verb.CHANGE, "tenant acme")
    [change] = step.changes
    assert (change.field, change.before, change.after) == ("limits.requests_per_minute", 60, None)
    assert Quota.objects.get(tenant__name="acme").requests_per_minute is None


def test_only_what_the_file_names_is_touched():
    do()
    do("{apiVersion: weir/v1, tenants: [{name: other}]}")
    assert set(Tenant.objects.values_list("name", flat=True)) == {"acme", "other"}
    assert Quota.objects.get(tenant__name="acme").requests_per_minute == 60
    assert Key.objects.get().state == KeyState.ACTIVE


def test_all_or_nothing():
    said = refusal(SERVICE.replace("deployment: d}", "deployment: nowhere}"))
    assert said.startswith("15: routes[0].targets[0].deployment: there is no deployment 'nowhere'")
    assert not Tenant.objects.exists()


def test_what_is_odd_and_what_leads_nowhere_is_told_at_once():
    text = SERVICE.replace("deployment: d}", "deployment: nowhere}").replace("acme", "a b")
    text = text.replace("version: v1}", "version: v1, replicas: {max: -1}}")
    lines = [line.partition(": ")[0] for line in refusal(text, ACME_KEY="").splitlines()]
    assert lines == ["4", "8", "14", "15"]


def test_versions_are_immutable():
    do()
    said = refusal(SERVICE.replace(":9000", ":9001"))
    assert said == (
        "12: models[0].versions[0]: differs from the stored m:v1 in engine.url;"
        " versions are immutable: name a new one"
    )


def test_the_key_of_an_external_engine_may_change():
    do()
    assert steps(do(UP="another")) == ["change version m:v1"]
    assert unseal(Version.objects.get().upstream_key) == "another"
    assert steps(do(UP="another")) == []


def test_after_another_weir_secret_the_file_sets_keys_anew(settings):
    do()
    settings.WEIR_SECRET = b"another"
    with pytest.raises(BadFile, match="say rotate: true"):
        do()
    assert steps(do(SERVICE.replace("routes: [chat]}", "routes: [chat], rotate: true}"))) == [
        "rotate key acme/ci",
        "change version m:v1",
    ]
    assert unseal(Version.objects.get().upstream_key) == "upstream"


def test_prices_and_cost_rates_become_new_entries_and_equal_ones_change_nothing():
    do()
    dearer = SERVICE.replace('output: "0.4"', 'output: "0.5"').replace('"2.5"', '"3"')
    assert steps(do(dearer, at=LATER)) == ["change price m", "change cost_rate *"]
    prices = Price.objects.order_by("valid_from").values_list("output_pico", "valid_from")
    assert list(prices) == [(400_000, AT), (500_000, LATER)]
    assert CostRate.objects.count() == 2
    equal = dearer.replace('"0.5"', '"0.50"')
    assert steps(do(equal, at=LATER + timedelta(hours=1))) == []


@pytest.mark.parametrize("name", ["ACME_KEY", "UP"])
def test_a_secret_that_the_environment_lacks_is_an_error(name):
    assert f"{name} is not set in the environment of weir apply" in refusal(SERVICE, **{name: ""})


def test_a_secret_is_32_to_256_printable_characters():
    said = refusal(SERVICE, ACME_KEY="short")
    assert (
        said
        == "8: tenants[0].keys[0].secret_env: ACME_KEY has 5 characters; a secret has 32 to 256"
    )


def test_another_secret_is_refused_unless_rotate_says_so():
    do()
    assert "say rotate: true to change it" in refusal(SERVICE, ACME_KEY=TWO)
    rotating = SERVICE.replace("secret_env: ACME_KEY", "secret_env: ACME_KEY, rotate: true")
    assert steps(do(rotating, ACME_KEY=TWO, at=LATER)) == ["rotate key acme/ci"]
    keys = compile_part(Part.IDENTITIES, 1).keys
    assert keys[digest_of(ONE)].expires_at == (LATER + timedelta(hours=24)).timestamp()
    assert keys[digest_of(TWO)].expires_at is None
    assert steps(do(rotating, ACME_KEY=TWO, at=LATER)) == []


def test_one_secret_is_one_key():
    both = SERVICE.replace("routes: [chat]}", "routes: [chat]}, {name: cd, secret_env: ACME_KEY}")
    assert "ACME_KEY holds the secret of another key, acme/ci" in refusal(both)


def test_k01_a_revoked_secret_is_not_brought_back():
    do()
    do(
        SERVICE.replace("secret_env: ACME_KEY, routes: [chat]", "secret_env: NEW").replace(
            "name: ci", "name: cd"
        ),
        NEW=TWO,
        prune=True,
    )
    assert Key.objects.get(name="ci").state == KeyState.REVOKED
    assert "the secret of another key, acme/ci (revoked)" in refusal(SERVICE)


def test_without_secret_env_a_secret_is_made_once():
    text = SERVICE.replace(", secret_env: ACME_KEY", "")
    made = do(text).secrets
    assert digest_of(made["acme/ci"]) == Key.objects.get().digest
    assert made["acme/ci"] not in repr(do(text))
    assert do(text).secrets == {}


def test_a_key_moves_and_is_whole():
    do()
    text = SERVICE.replace("project: web, ", "").replace(", routes: [chat]", "")
    [step] = do(text).plan.changes
    told = {change.field: (change.before, change.after) for change in step.changes}
    assert told == {"project": ("web", "default"), "routes": (["chat"], "every route")}
    key = Key.objects.select_related("project").get()
    assert (key.project.name, key.routes) == ("default", None)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("project: web", "project: nope", "tenants[0].keys[0].project: there is no project"),
        ("routes: [chat]", "routes: [nope]", "tenants[0].keys[0].routes[0]: there is no route"),
        ("model: m, version", "model: n, version", "deployments[0].model: there is no model 'n'"),
        ("version: v1}", "version: v2}", "deployments[0].version: there is no version 'm:v2'"),
        ("prices: [{model: m", "prices: [{model: n", "prices[0].model: there is no model 'n'"),
        ("prices: [{model: m", "prices: [{tenant: x, model: m", "prices[0].tenant: there is no"),
        ("version: v1}", "version: v1, node: n}", "deployments[0].node: an external engine is on"),
        ("version: v1}", "version: v1, replicas: {max: 2}}", "replicas.max: an external engine"),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(old, new, said):
    assert said in refusal(SERVICE.replace(old, new))


def test_a_deployment_may_change_its_version_while_replicas_live():
    do()
    Replica.objects.create(deployment=Deployment.objects.get(), generation=1)
    other = SERVICE.replace("name: v1\n", "name: v2\n").replace("version: v1", "version: v2")
    assert steps(do(other)) == ["create version m:v2", "change deployment d"]


def test_a_deployment_keeps_its_model_while_a_replica_of_it_lives():
    do()
    replica = Replica.objects.create(deployment=Deployment.objects.get(), generation=1)
    other = SERVICE.replace("- name: m", "- name: n").replace("model: m", "model: n")
    assert "'d' still serves 'm': drain it first, or name a new deployment" in refusal(other)
    Replica.objects.filter(pk=replica.pk).update(state="stopped")
    assert "change deployment d" in steps(do(other))


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
