"""Engines and weights of nodes over REST."""

from datetime import UTC, datetime

import pytest

from control.models import NodeRuntime, NodeWeights
from tests.fleet.rows import a_node, a_version

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOST = {"machine": "x86_64", "glibc": "2.36", "python": "3.11.2"}
SOURCE = {"huggingface": "org/name", "revision": "ab" * 20}


@pytest.fixture
def node(db):
    return a_node(at=AT, host=HOST)


def test_a_runtime_is_asked_for_and_shown(admin_client, node):
    answer = admin_client.post("/api/runtimes/", {"version": "0.32.0"}, "application/json")
    assert (answer.status_code, answer.json()) == (
        202,
        [{"node": "n1", "asked": True, "reason": ""}],
    )
    [row] = admin_client.get("/api/runtimes/").json()
    assert (row["engine"], row["version"], row["state"]) == ("vllm", "0.32.0", "wanted")


def test_a_runtime_that_no_node_can_run_is_refused_with_the_reason(admin_client, node):
    body = {"version": "0.32.0", "device_kind": "gpu"}
    answer = admin_client.post("/api/runtimes/", body, "application/json")
    assert answer.status_code == 400
    assert "n1: needs a GPU" in answer.json()["error"]["message"]
    assert not NodeRuntime.objects.exists()


def test_weights_are_asked_for_and_a_nodes_page_shows_its_disk(admin_client, node):
    a_version("m", engine={"kind": "vllm", "version": "0.32.0"}, source=SOURCE)
    body = {"model": "m", "version": "v1"}
    assert admin_client.post("/api/weights/", body, "application/json").status_code == 202
    NodeWeights.objects.update(state="running", percent=40, detail="downloads model.safetensors")
    disk = admin_client.get("/api/nodes/n1/disk/").json()
    assert [row["percent"] for row in disk["weights"]] == [40]
    shown = admin_client.get("/nodes/n1/").content.decode()
    for words in ("org--name-abababababab", "40 %: downloads model.safetensors", "glibc 2.36"):
        assert words in shown
    assert admin_client.get("/api/nodes/none/disk/").status_code == 404


def test_others_than_operators_are_refused(client, node):
    for path in ("/api/runtimes/", "/api/weights/", "/api/nodes/n1/disk/"):
        assert client.get(path).status_code == 401
