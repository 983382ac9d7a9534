"""Nodes over REST."""

import pytest
from django.utils import timezone

from control.models import AuditEntry
from tests.fleet.rows import a_device, a_node

NODE = "/api/nodes/n1/"


@pytest.fixture
def node(api):
    made = a_node("n1", at=timezone.now())
    a_device(made, 100, at=timezone.now(), links=[{"uuid": "GPU-2", "kind": "nvlink"}])
    return made


def test_a_node_tells_its_devices_and_what_is_said_of_it(api, node):
    shown = api.get(NODE).json()
    assert (shown["pool"], shown["labels"], shown["standing"]) == ("default", {}, "")
    [device] = shown["devices"]
    assert device["power_watts"] is None
    assert device["links"] == [{"uuid": "GPU-2", "kind": "nvlink"}]
    assert api.get("/api/nodes/none/").status_code == 404


def test_a_node_is_described_drained_said_to_leave_and_taken_back(api, node):
    wanted = {"pool": "spot", "labels": {"preemptible": "true"}}
    assert api.patch(NODE, wanted, format="json").json()["labels"] == wanted["labels"]
    drained = api.post(f"{NODE}drain/?reason=repair").json()
    assert (drained["standing"], drained["leaving_reason"]) == ("drained", "repair")
    left = api.post(f"{NODE}leaving/", {"in_seconds": 60}, format="json").json()
    assert left["leaving_by"]
    back = api.post(f"{NODE}cordon/", {"cordoned": False}, format="json").json()
    assert (back["standing"], back["leaving_by"], back["pool"]) == ("", None, "spot")
    verbs = [entry.action for entry in AuditEntry.objects.order_by("pk")]
    assert verbs == ["describe node", "drain node", "node leaves", "uncordon node"]


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("post", "leaving/", {"in_seconds": -1}, "in_seconds"),
        ("post", "leaving/", {}, "in_seconds"),
        ("patch", "", {"labels": {"a b": "x"}}, "labels.a b"),
        ("patch", "", {"zone": "x"}, "zone"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(api, node, method, path, body, field):
    answer = getattr(api, method)(NODE + path, body, format="json")
    assert answer.status_code == 400
    assert [it["field"] for it in answer.json()["error"]["problems"]] == [field]
