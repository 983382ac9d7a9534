"""What applying a service.yaml means: one transaction, whole objects, nothing deleted."""

from datetime import timedelta

import pytest

from control.apply.plan import Verb
from control.models import (
    CostRate,
    Deployment,
    Key,
    Price,
    Quota,
    Replica,
    Tenant,
)
from control.routes.compiler import compile_part
from control.states import KeyState, Part
from tests.apply.applying import AT, LATER, SERVICE, do, refusal, steps

pytestmark = pytest.mark.django_db


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


def test_prices_and_cost_rates_become_new_entries_and_equal_ones_change_nothing():
    do()
    dearer = SERVICE.replace('output: "0.4"', 'output: "0.5"').replace('"2.5"', '"3"')
    assert steps(do(dearer, at=LATER)) == ["change price m", "change cost_rate *"]
    prices = Price.objects.order_by("valid_from").values_list("output_pico", "valid_from")
    assert list(prices) == [(400_000, AT), (500_000, LATER)]
    assert CostRate.objects.count() == 2
    equal = dearer.replace('"0.5"', '"0.50"')
    assert steps(do(equal, at=LATER + timedelta(hours=1))) == []


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
