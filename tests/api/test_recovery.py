"""What failures taught, over REST."""

from django.utils import timezone

from control.models import Override
from tests.fleet.rows import a_deployment, a_device, a_node

DEPLOYMENT, NODE = "/api/deployments/d/", "/api/nodes/n1/"


def test_overrides_are_listed_and_dropped_and_a_launch_is_tried_again(api):
    deployment = a_deployment(note="crash loop: stopped after 10 failures in a row")
    Override.objects.create(
        deployment=deployment,
        version=deployment.version,
        cause="cache_blocks_short",
        changes={"memory_percent": 25},
        reason="it wants more memory",
        created_at=timezone.now(),
    )
    [shown] = api.get(f"{DEPLOYMENT}overrides/").json()
    assert shown["changes"] == "25 % more memory beside the KV cache"
    body = {"id": shown["id"]}
    dropped = api.post(f"{DEPLOYMENT}drop_override/", body, format="json")
    assert dropped.status_code == 200
    assert api.get(f"{DEPLOYMENT}overrides/").json() == []
    assert api.post(f"{DEPLOYMENT}drop_override/", body, format="json").status_code == 404
    assert api.post(f"{DEPLOYMENT}retry/").json()["note"] == ""


def test_a_device_is_quarantined_and_released(api):
    card = a_device(a_node(at=timezone.now()), 100, at=timezone.now(), kind="gpu")
    body = {"device": card.uuid}
    [shown] = api.post(f"{NODE}quarantine/?reason=burns", body, format="json").json()["devices"]
    assert shown["quarantined_at"]
    [shown] = api.post(f"{NODE}release/", body, format="json").json()["devices"]
    assert shown["quarantined_at"] is None
    assert api.post(f"{NODE}release/", {"device": "none"}, format="json").status_code == 404
