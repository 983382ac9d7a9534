"""One node's page: what it is, what its devices say, and taking it out by its forms."""

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.pages.disk import VERSIONS
from control.models import AuditEntry, Device, Node, NodeRuntime
from control.placement import actions as placement
from control.placement.world import Share
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica


@pytest.fixture
def node(db):
    made = a_node("n1", at=timezone.now(), labels={"zone": "a"})
    links = [{"uuid": "GPU-2", "kind": "nvlink"}]
    for index, its in enumerate((links, [])):
        a_device(
            *(made, 80 << 30),
            at=timezone.now(),
            kind="gpu",
            uuid=f"GPU-{index + 1}",
            name="H200",
            index=index,
            links=its,
        )
    return made


def test_a_node_shows_its_devices_their_health_and_their_links(console, node):
    Device.objects.filter(uuid="GPU-1").update(
        power_watts=312.4, ecc_uncorrected=2, xid_errors=1, xid_last=79, foreign_pids=[41, 42]
    )
    shown = console.get("/nodes/n1/").content.decode()
    for words in ("312 W", "2 ECC", "1 Xid, last 79", "2 processes", "nvlink", "zone=a"):
        assert words in shown
    assert "0 H200" in shown


def test_a_host_with_cards_tells_its_ram_on_its_page_and_over_rest(console, operator, node):
    assert "booked beside its cards" not in console.get("/nodes/n1/").content.decode()
    gib = 1 << 30
    Node.objects.update(host={"memory_bytes": 110 * gib}, memory_free_bytes=50 * gib)
    replica = a_replica(a_deployment(), node, at=timezone.now(), host_booked_bytes=43 * gib)
    [device, _] = Device.objects.order_by("index")
    placement.book(replica, (Share(device.pk, ((0, gib),)),))
    shown = console.get("/nodes/n1/").content.decode()
    assert "RAM 50.0 GiB free of 110.0 GiB, 43.0 GiB booked beside its cards" in shown
    api = APIClient()
    api.force_authenticate(operator)
    told = api.get("/api/nodes/n1/").json()
    figures = [told[f"memory_{name}_bytes"] for name in ("total", "free", "booked")]
    assert figures == [110 * gib, 50 * gib, 43 * gib]


def test_what_a_driver_does_not_say_is_a_dash(console, node):
    shown = console.get("/nodes/n1/").content.decode()
    assert "0 W" not in shown
    assert "0 ECC" not in shown


def test_a_quarantined_and_a_lost_device_say_so(console, node):
    now = timezone.now()
    Device.objects.filter(uuid="GPU-1").update(quarantined_at=now, quarantine_reason="bad one")
    Device.objects.filter(uuid="GPU-2").update(lost=True, error="GPU is lost")
    shown = console.get("/nodes/").content.decode()
    assert "bad one" in shown
    assert "lost: GPU is lost" in shown


def test_pool_and_labels_are_changed_by_the_form(console, node):
    form = {"pool": "spot", "labels": "zone=b, preemptible=true"}
    shown = console.post("/nodes/n1/describe/", form, follow=True).content.decode()
    assert "preemptible=true, zone=b" in shown
    assert Node.objects.get().labels == {"zone": "b", "preemptible": "true"}
    refused = console.post("/nodes/n1/describe/", {"pool": "a b"}, follow=True)
    assert b"alert-danger" in refused.content


def test_a_node_is_drained_and_taken_back_by_its_forms(console, node):
    shown = console.post("/nodes/n1/drain/", follow=True).content.decode()
    assert 'data-state="drained"' in shown
    assert "it may be taken away" in shown
    console.post("/nodes/n1/cordon/", {"value": "no"})
    assert not Node.objects.get().draining
    assert [one.action for one in AuditEntry.objects.all()] == ["drain node", "uncordon node"]


def test_a_departure_is_said_in_seconds(console, node):
    console.post("/nodes/n1/leaving/", {"in_seconds": "120"})
    assert Node.objects.get().leaving_by is not None
    refused = console.post("/nodes/n1/leaving/", {"in_seconds": "-1"}, follow=True)
    assert b"Seconds are a number" in refused.content


def test_a_removed_node_is_no_longer_there(console, node):
    answer = console.post("/nodes/n1/remove/")
    assert answer["Location"] == "/nodes/"
    assert console.get("/nodes/n1/").status_code == 404
    assert console.post("/nodes/n1/remove/", follow=True).status_code == 404


HOST = {"machine": "x86_64", "glibc": "2.36", "python": "3.11.2"}


def test_an_engine_is_installed_ahead_by_its_form(console, node):
    Node.objects.update(host=HOST)
    a_node("n2", at=timezone.now(), host=HOST)
    form = {"version": VERSIONS[0], "device_kind": "cpu", "reason": "before the night"}
    shown = console.post("/nodes/n1/runtimes/", form, follow=True).content.decode()
    assert "n1 was asked, for cpu" in shown
    assert "Install an engine ahead" in shown
    [row] = NodeRuntime.objects.all()
    assert (row.node.name, row.version, row.asked_by) == ("n1", VERSIONS[0], "ann")
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.reason) == ("install runtime", "before the night")
    console.post("/nodes/n1/runtimes/", form | {"everywhere": "yes", "reason": ""})
    assert NodeRuntime.objects.filter(node__name="n2").exists()
    assert AuditEntry.objects.latest("pk").reason == "console"


@pytest.mark.parametrize("version", ["0.1", "", VERSIONS[0]])
def test_an_engine_that_no_node_can_run_is_refused_with_why(console, node, version):
    Node.objects.update(host=HOST | {"glibc": "2.17"})
    answer = console.post("/nodes/n1/runtimes/", {"version": version}, follow=True)
    assert b"alert-danger" in answer.content
    assert not NodeRuntime.objects.exists()
