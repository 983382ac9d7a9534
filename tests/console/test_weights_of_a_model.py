"""A model's page says which nodes have its weights, and asks all of them at a button."""

from django.utils import timezone

from control.models import AuditEntry, NodeWeights
from engines.sources import key_of
from tests.fleet.rows import a_node, a_version

SOURCE = {"huggingface": "org/m", "revision": "a" * 40}


def test_the_page_names_who_has_them_and_a_button_asks_the_rest(console):
    for name in ("n1", "n2"):
        a_node(name, at=timezone.now())
    a_version("gemma", engine={"kind": "vllm", "version": "0.32.0"}, source=SOURCE)
    assert "On no node yet" in console.get("/models/gemma/").content.decode()
    shown = console.post("/models/gemma/prefetch/", {"version": "v1"}, follow=True)
    text = shown.content.decode()
    assert "Asked of 2 nodes: n1, n2" in text
    assert text.count("wanted") >= 2
    assert set(NodeWeights.objects.values_list("key", flat=True)) == {key_of(SOURCE)}
    assert AuditEntry.objects.get().action == "prefetch weights"
    refused = console.post("/models/gemma/prefetch/", {"version": "v9"}, follow=True)
    assert "there is no version gemma:v9" in refused.content.decode()
