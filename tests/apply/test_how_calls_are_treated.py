"""What applying does with rules, scopes and buckets: planned by name, whole, references checked."""

import pytest

from control.models import Route
from control.routes.compiler import compile_part
from control.states import Part
from tests.apply.applying import SERVICE, do, refusal, steps

pytestmark = pytest.mark.django_db

TARGET = "targets: [{deployment: d}]"
RULES = ", rules: [{tenants: [x], targets: [{deployment: y}]}]"


def test_a_plan_tells_what_changes_of_how_calls_are_treated():
    do()
    rule = ", rules: [{hours: [22, 6], targets: [{deployment: d, weight: 7}]}]"
    [step] = do(SERVICE.replace(TARGET, TARGET + rule + ", policy: prefix")).plan.changes
    told = {change.field: (change.before, change.after) for change in step.changes}
    assert told == {
        "policy": ("load_aware", "prefix"),
        "rules[0]": (None, {"hours": (22, 6), "targets": {"d": 7}}),
    }
    [step] = do().plan.changes
    assert {change.after for change in step.changes} == {"load_aware", None}
    assert Route.objects.get().rules == []


def test_scopes_of_a_key_and_a_deployments_bucket_are_applied_whole():
    scope = "keys: [{networks: [10.0.0.0/8], endpoints: [models], priority: batch, "
    bucket = "version: v1, bucket: {calls_per_second: 2}}"
    text = SERVICE.replace("keys: [{", scope).replace("version: v1}", bucket)
    do(text)
    assert steps(do(text)) == []
    [key] = compile_part(Part.IDENTITIES, 1).keys.values()
    assert (key.networks, key.endpoints, key.priority) == (("10.0.0.0/8",), ("models",), "batch")
    assert compile_part(Part.ROUTES, 1).deployments["d"].bucket.calls_per_second == 2
    assert steps(do()) == ["change key acme/ci", "change deployment d"]
    assert compile_part(Part.ROUTES, 1).deployments["d"].bucket is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (", fallback: x", "routes[0].fallback: there is no deployment 'x'"),
        (RULES, "routes[0].rules[0].tenants[0]: there is no tenant 'x'"),
        (RULES, "routes[0].rules[0].targets[0].deployment: there is no deployment 'y'"),
    ],
)
def test_a_route_that_names_what_is_not_there_is_refused(asked, said):
    assert said in refusal(SERVICE.replace(TARGET, TARGET + asked))
