"""Each trouble of the fleet is told once to the operator's URL, and once that it is over."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from control.fleet.incidents import actions, facts, letters
from control.fleet.incidents.rules import GONE_FOR
from control.models import Deployment, Device, Drift, Incident, IncidentLetter, Node
from control.states import Hindrance, NodeState
from control.webhooks import sending
from tests.console.test_drift import an_hour
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica
from tests.placement.world import AT
from tests.webhooks.hook import running

LONG = AT - timedelta(minutes=6)


@pytest.fixture
def troubled(db):
    node = a_node(at=AT, state=NodeState.LOST, state_at=LONG, note="no heartbeat for 60 s")
    away = {"quarantined_at": AT, "quarantine_reason": "Xid 79"}
    a_device(node, 1 << 30, at=AT, kind="gpu", name="card 0", **away)
    a_deployment("full", hindrance=Hindrance.UNPLACED, hindered_at=LONG, note="n1 is full")
    a_deployment("wrong", hindrance=Hindrance.GIVEN_UP, hindered_at=LONG, note="crash loop: x")
    fine = a_deployment("fine", priority="interactive")
    replica = a_replica(fine, a_node("n2", at=AT), at=AT)
    an_hour(replica, unexplained_input_tokens=5000, is_incident=True)


def test_all_that_is_open_is_told_once(troubled, settings):
    with running() as hook:
        settings.WEIR_ALERT_URL = hook.url
        assert actions.watch(AT) == 5
        assert actions.watch(AT) == 0
        assert sending.send((letters.BOX,), AT) == 5
        assert sending.send((letters.BOX,), AT) == 0
    told = [json.loads(body)["data"] for _, body in hook.seen]
    assert sorted((one["kind"], one["is_urgent"]) for one in told) == [
        ("crash loop", True),
        ("drift", True),
        ("node lost", True),
        ("quarantine", False),
        ("unplaced", True),
    ]
    [drift] = [one for one in told if one["kind"] == "drift"]
    assert "+5000 input and +0 output tokens that no attempt explains" in drift["what"]


def test_what_is_over_for_a_minute_is_told_as_over(troubled, settings):
    settings.WEIR_ALERT_URL = "http://127.0.0.1:9/hook"
    actions.watch(AT)
    Node.objects.update(state=NodeState.READY)
    Device.objects.update(quarantined_at=None)
    Deployment.objects.update(hindrance="", note="", hindered_at=None)
    Drift.objects.update(closed_at=timezone.now())
    assert actions.watch(AT) == 0
    assert actions.watch(AT + GONE_FOR / 2) == 0
    Node.objects.filter(name="n1").update(state=NodeState.LOST)
    assert actions.watch(AT + GONE_FOR) == 4
    open_still, *ended = facts.incidents()
    assert (open_still.kind, open_still.ended_at) == ("node lost", None)
    assert [one.event for one in open_still.letters] == ["opened"]
    assert {one.ended_at for one in ended} == {AT + GONE_FOR}
    assert all([one.event for one in each.letters] == ["opened", "ended"] for each in ended)


def test_the_bytes_of_a_letter_do_not_change_when_its_incident_ends(troubled, settings):
    settings.WEIR_ALERT_URL = "http://127.0.0.1:9/hook"
    actions.watch(AT)
    row = IncidentLetter.objects.select_related("incident").first()
    before = letters.words(row, AT)
    row.incident.ended_at = AT + GONE_FOR
    assert letters.words(row, AT) == before


def test_without_a_url_incidents_are_kept_and_nobody_is_told(troubled, settings):
    settings.WEIR_ALERT_URL = ""
    assert actions.watch(AT) == 5
    assert not IncidentLetter.objects.exists()


def test_a_look_asks_as_many_questions_however_large_the_fleet(
    troubled, django_assert_max_num_queries
):
    actions.watch(AT)
    for number in range(20):
        a_deployment(f"d{number}")
        a_node(f"m{number}", at=AT)
    with django_assert_max_num_queries(12):  # savepoint and updates of nothing among them
        actions.watch(AT)


def test_old_incidents_go(troubled):
    actions.watch(AT)
    Incident.objects.filter(kind="unplaced").update(ended_at=AT)
    assert actions.prune(AT + actions.KEPT) == 0
    assert actions.prune(AT + actions.KEPT + timedelta(seconds=1)) == 1
