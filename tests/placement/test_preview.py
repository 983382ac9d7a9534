"""Where a launch would go and who would give way: shown before, by API, page and apply."""

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone
from rest_framework.test import APIClient

from control.apply.actions import apply
from control.models import AuditEntry, Deployment, Device, Replica
from tests.placement.world import AT, a_host, a_launch, wants

URGENT = {"priority": "interactive", "placement": {"share": "shared"}}
FILE = """
apiVersion: weir/v1
deployments:
  - {name: chat, model: m-chat, version: v1, priority: interactive, placement: {share: shared}}
"""


@pytest.fixture
def full(db):
    """A card that a batch replica holds, and a deployment that waits for one."""
    a_host()
    a_launch(wants("night", "batch"), Device.objects.get())
    return wants("chat")


@pytest.fixture
def operator(db):
    return get_user_model().objects.create_user("ann", is_staff=True)


def test_the_api_previews_and_then_changes(full, operator):
    api = APIClient()
    api.force_authenticate(operator)
    Device.objects.update(read_at=timezone.now())
    stored = api.post("/api/deployments/chat/preview/").json()
    assert stored["verdict"] == "unplaced"
    assert "shared by night#1 of another priority" in stored["text"]
    wanted = api.post("/api/deployments/chat/preview/", URGENT, format="json").json()
    assert (wanted["verdict"], wanted["gives_way"]) == ("displaces", ["night#1"])
    assert Deployment.objects.get(name="chat").priority == "standard"
    changed = api.post("/api/deployments/chat/place/", URGENT, format="json").json()
    assert (changed["priority"], changed["placement"]["share"]) == ("interactive", "shared")
    assert AuditEntry.objects.get().action == "place deployment"
    odd = api.post("/api/deployments/chat/place/", {"project": "nowhere"}, format="json")
    assert odd.status_code == 400
    assert Replica.objects.get().state == "ready"


def test_the_page_previews_and_then_changes(full, operator, client):
    client.force_login(operator)
    Device.objects.update(read_at=timezone.now())
    form = {"priority": "interactive", "share": "shared", "policy": "pack"}
    form |= {"anti_affinity": "preferred", "preview": "1"}
    shown = client.post("/deployments/chat/place/", form).content.decode()
    assert "where night#1 of priority batch would give way" in shown
    assert Deployment.objects.get(name="chat").priority == "standard"
    del form["preview"]
    client.post("/deployments/chat/place/", form)
    assert Deployment.objects.get(name="chat").priority == "interactive"
    assert "shared card, pack" in client.get("/deployments/chat/").content.decode()


def test_a_plan_tells_who_would_give_way(full):
    planned = apply(FILE, environment={}, by="ann", reason="a test", at=AT)
    [step] = planned.plan.changes
    assert "where night#1 of priority batch would give way" in step.note
    assert Replica.objects.get().state == "ready"
