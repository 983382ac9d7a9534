"""Pages show what is, also when there is nothing, and read no more for longer lists."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from control.fleet.nodes.actions import cordon
from control.models import AuditEntry, Deployment, Node, Replica
from tests.console.conftest import BY

LISTS = ["/", "/deployments/", "/nodes/", "/models/", "/tenants/", "/keys/", "/audit/", "/budgets/"]
PAGES = [*LISTS, "/playground/", "/deployments/dep-1/", "/tenants/tenant-1/"]


@pytest.mark.parametrize("page", LISTS)
def test_an_empty_platform_says_what_to_do(console, page):
    shown = console.get(page)
    assert shown.status_code == 200
    assert b"weir-empty" in shown.content


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_there_is(console, fleet, page):
    fleet(1)
    shown = console.get(page)
    assert shown.status_code == 200
    assert b'weir-empty"' not in shown.content or page in {"/playground/", "/budgets/"}


@pytest.mark.parametrize("page", LISTS)
def test_a_longer_list_asks_no_more_queries(console, fleet, page):
    fleet(1)
    console.get(page)  # what is read once per process is read
    with CaptureQueriesContext(connection) as few:
        console.get(page)
    for number in range(2, 6):
        fleet(number)
    with CaptureQueriesContext(connection) as many:
        console.get(page)
    assert len(many) == len(few)
    assert len(many) <= 18


def test_a_launch_shows_state_phase_progress_and_reason(console, fleet):
    fleet(1)
    shown = console.get("/deployments/dep-1/").content.decode()
    for word in ("loading", "loading weights", "40 %", "has weights", "node-1", "2.0 GiB"):
        assert word in shown


def test_a_replica_shows_the_end_of_its_log_as_text(console, fleet):
    fleet(1)
    replica = Replica.objects.get(generation=2)
    Replica.objects.filter(pk=replica.pk).update(log_tail="one\n<b>two</b>")
    shown = console.get(f"/deployments/replicas/{replica.pk}/").content.decode()
    assert "one\n&lt;b&gt;two&lt;/b&gt;" in shown


@pytest.mark.parametrize(
    "page", ["/deployments/none/", "/deployments/replicas/9/", "/tenants/none/", "/nowhere"]
)
def test_what_is_not_there_is_a_404_with_words(console, page):
    shown = console.get(page)
    assert shown.status_code == 404
    assert b"There is nothing here" in shown.content
    assert b"Resolver404" not in shown.content


@pytest.mark.parametrize(
    ("page", "entries"),
    [
        ("/", ["overview"]),
        ("/incidents/", ["overview"]),
        ("/usage/traces/", ["usage"]),
        ("/nowhere", []),
    ],
)
def test_the_menu_marks_the_entry_that_a_page_belongs_to(console, page, entries):
    menu = console.get(page).context["menu"]
    assert [entry.address for entry in menu if entry.active] == entries


def test_a_node_is_cordoned_and_opened_again_by_its_button(console, fleet):
    fleet(1)
    console.post("/nodes/node-1/cordon/", {"value": "yes"})
    assert Node.objects.get().cordoned
    assert b"Uncordon" in console.get("/nodes/").content
    console.post("/nodes/node-1/cordon/", {"value": "no"})
    assert not Node.objects.get().cordoned
    assert AuditEntry.objects.filter(by="ann", subject="node-1").count() == 2


def test_a_deployment_is_scaled_by_its_form(console, fleet):
    fleet(1)
    console.post("/deployments/dep-1/scale/", {"replicas_min": 1, "replicas_max": 3})
    deployment = Deployment.objects.get()
    assert (deployment.replicas_min, deployment.replicas_max) == (1, 3)


def test_a_deployment_shows_its_bucket(console, fleet):
    fleet(1)
    Deployment.objects.update(bucket={"calls_per_second": 2.5, "burst_seconds": 5})
    assert "2.50 <small>calls" in console.get("/deployments/dep-1/").content.decode()


def test_a_scale_that_cannot_be_is_refused_in_words(console, fleet):
    fleet(1)
    answer = {"replicas_min": 3, "replicas_max": 1}
    shown = console.post("/deployments/dep-1/scale/", answer, follow=True).content.decode()
    assert "alert-danger" in shown
    shown = console.post("/deployments/dep-1/scale/", {"replicas_min": "x"}, follow=True)
    assert b"whole numbers" in shown.content


def test_audit_is_filtered_by_subject(console, fleet):
    fleet(1)
    cordon(node="node-1", value=True, **BY)
    shown = console.get("/audit/?subject=node-1").content.decode()
    assert "node-1" in shown
    assert "tenant-1" not in shown


@pytest.mark.parametrize(
    ("page", "given"),
    [
        ("/tenants/tenant-1/members/", {"do": "add", "username": "\0"}),
        ("/models/prefetch/m/", {"version": "\0"}),
        ("/nodes/node-1/release/", {"device": "\0"}),
    ],
)
def test_what_postgresql_cannot_keep_is_refused_and_not_an_error(console, fleet, page, given):
    fleet(1)
    assert console.post(page, given).status_code == 302
    assert console.get("/audit/?subject=%00").status_code == 200
    assert console.get("/keys/?tenant=%00").status_code == 200
