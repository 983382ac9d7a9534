"""How a deployment's replicas are kept, changed on its page and over REST."""

import pytest
from rest_framework.test import APIClient

from control.fleet import recycle
from control.fleet.recycle import Recycle
from control.fleet.upkeep import Upkeep
from control.models import AuditEntry, Deployment
from control.reconcile import facts
from tests.console.conftest import AT
from tests.fleet.rows import a_deployment, a_version

PAGE, API = "/deployments/dep-1/upkeep/", "/api/deployments/dep-1/upkeep/"
GIVEN = {"node": "node-2", "calls": "500", "hours": "12.5", "allow_shorter_context": "on"}
KEPT = Upkeep("node-2", Recycle(calls=500, hours=12.5), allow_shorter_context=True)


@pytest.fixture
def stored(fleet):
    fleet(1)

    def kept() -> Upkeep:
        row = Deployment.objects.get(name="dep-1")
        return Upkeep(row.node, recycle.of(row.recycle), row.allow_shorter_context)

    return kept


@pytest.fixture
def api(operator):
    client = APIClient()
    client.force_authenticate(operator)
    return client


def test_its_form_saves_all_of_it_and_says_who_did(console, stored):
    Deployment.objects.update(note="a crash loop", hindrance="a crash loop")
    console.post(PAGE, GIVEN)
    assert stored() == KEPT
    entry = AuditEntry.objects.get(subject="dep-1")
    assert (entry.action, entry.by) == ("change upkeep", "ann")
    row = Deployment.objects.get()
    assert (row.note, row.hindrance) == ("", "")  # as an apply does: it is tried again now
    assert row.retry_at is not None
    shown = console.get("/deployments/dep-1/").content.decode()
    shorter = '<option value="on" selected>'
    for said in ('name="node" value="node-2"', 'name="calls" value="500"', "on node-2", shorter):
        assert said in shown
    console.post(PAGE, {})
    assert stored() == Upkeep()


def test_who_runs_elsewhere_than_the_new_pin_is_replaced(console, stored):
    """Successor first: reconcile sees that it leaves, and launches before it drains."""
    console.post(PAGE, {"node": "node-2"})
    [seen] = facts.world(AT).deployments
    why = "is on node-1, and its deployment is pinned to node-2"
    assert {one.leaving for one in seen.replicas} == {why}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"node": "a b"}, "node: "),
        ({"calls": "5"}, "recycle.calls: 5 is not between 100 and"),
        ({"hours": "0.1"}, "recycle.hours: 0.1 is not between 0.5 and"),
        ({"host_memory_growth": "0.05"}, "recycle.host_memory_growth: 0.05 is not between 0.1"),
        ({"hours": "soon"}, "Enter a number."),
    ],
)
def test_what_apply_would_refuse_its_form_refuses_and_keeps_what_was_written(
    console, stored, given, said
):
    shown = console.post(PAGE, GIVEN | given).content.decode()
    assert said in shown.replace("&#x27;", "'")
    [(name, value)] = given.items()
    assert f'name="{name}" value="{value}"' in shown
    assert stored() == Upkeep()
    assert not AuditEntry.objects.filter(subject="dep-1").exists()


def test_the_api_changes_and_refuses_the_same(api, stored):
    body = {"node": "node-2", "recycle": {"calls": 500, "hours": 12.5}}
    changed = api.post(API, body | {"allow_shorter_context": True}, format="json").json()
    assert (changed["node"], changed["recycle"]) == ("node-2", {"calls": 500, "hours": 12.5})
    assert changed["allow_shorter_context"] is True
    assert stored() == KEPT
    for odd in ({"speed": 1}, {"node": "a b"}, {"recycle": {"calls": 1}}, {"recycle": {"x": 1}}):
        assert api.post(API, odd, format="json").status_code == 400
    assert stored() == KEPT
    assert api.post(API, {}, format="json").status_code == 200
    assert stored() == Upkeep()
    nobody = api.post("/api/deployments/none/upkeep/", {}, format="json")
    assert nobody.status_code == 404


@pytest.mark.parametrize("body", [{"node": "node-1"}, {"recycle": {"hours": 1}}])
def test_an_external_engine_is_where_it_is(api, db, body):
    engine = {"kind": "external", "url": "http://127.0.0.1:9", "served_name": "m"}
    a_deployment("out", version=a_version("m-out", engine=engine))
    refused = api.post("/api/deployments/out/upkeep/", body, format="json")
    assert refused.status_code == 400
    assert "an external engine" in refused.json()["error"]["message"]
