"""A model's page says which nodes have its weights, and asks all of them at a button."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console import parts
from control.models import AuditEntry, NodeWeights
from engines.sources import key_of
from tests.fleet.rows import a_node, a_version

SOURCE = {"huggingface": "org/m", "revision": "a" * 40}


def test_the_page_names_who_has_them_and_a_button_asks_the_rest(console):
    for name in ("n1", "n2"):
        a_node(name, at=timezone.now())
    a_version("gemma", engine={"kind": "vllm", "version": "0.32.0"}, source=SOURCE)
    assert "On no node yet" in console.get("/models/gemma/").content.decode()
    shown = console.post("/models/prefetch/gemma/", {"version": "v1"}, follow=True)
    text = shown.content.decode()
    assert "Asked of 2 nodes: n1, n2" in text
    assert text.count("wanted") >= 2
    assert set(NodeWeights.objects.values_list("key", flat=True)) == {key_of(SOURCE)}
    assert AuditEntry.objects.get().action == "prefetch weights"
    refused = console.post("/models/prefetch/gemma/", {"version": "v9"}, follow=True)
    assert "there is no version gemma:v9" in refused.content.decode()


def test_a_fetch_moves_on_the_page_while_one_looks(console):
    node = a_node("n1", at=timezone.now())
    a_version("gemma", engine={"kind": "vllm", "version": "0.32.0"}, source=SOURCE)
    assert 'ws-connect="/live/part/model/gemma/"' in console.get("/models/gemma/").content.decode()
    copy = NodeWeights.objects.create(
        node=node,
        key=key_of(SOURCE),
        source=SOURCE,
        state="running",
        percent=40,
        state_at=timezone.now(),
    )
    assert "running 40 %" in parts.html("model", timezone.now(), "gemma")
    NodeWeights.objects.filter(pk=copy.pk).update(percent=60)
    with CaptureQueriesContext(connection) as asked:
        assert "running 60 %" in parts.html("model", timezone.now(), "gemma")
    assert len(asked) <= 4
    assert "running" not in parts.html("model", timezone.now(), "nobody")


def test_a_model_whose_name_has_a_dot_has_its_pages(console):
    a_version("llama-3.1-8b", engine={"kind": "vllm", "version": "0.32.0"}, source=SOURCE)
    assert 'href="/models/llama-3.1-8b/"' in console.get("/models/").content.decode()
    page = console.get("/models/llama-3.1-8b/").content.decode()
    assert 'ws-connect="/live/part/model/llama-3.1-8b/"' in page
    assert 'action="/models/prefetch/llama-3.1-8b/"' in page


@pytest.mark.parametrize("page", ["models/%00/", "prices/of/%00/", "usage/traces/%00/"])
def test_what_can_be_no_name_has_no_page(console, page):
    assert console.get(f"/{page}").status_code == 404
