"""Open troubles over REST, on the overview and from `weir status`."""

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone
from rest_framework.test import APIClient

from control.fleet.incidents import actions
from control.states import NodeState
from tests.fleet.rows import a_deployment, a_node


@pytest.fixture
def client(db):
    now = timezone.now()
    a_node("n1", at=now, state=NodeState.LOST, state_at=now, note="no heartbeat for 60 s")
    told = {"hindrance": "unplaced", "note": "waits for a place: n1 is lost"}
    a_deployment("chat", hindered_at=now - timedelta(minutes=9), **told)
    made = APIClient()
    made.force_login(get_user_model().objects.create_user("ann", is_staff=True))
    return made


def test_what_is_open_is_listed_with_its_instant(client):
    unplaced, lost = client.get("/api/troubles/").json()
    assert (unplaced["kind"], unplaced["about"]) == ("unplaced", "chat")
    assert unplaced["what"] == "waits for a place: n1 is lost"
    assert (lost["kind"], lost["is_urgent"]) == ("node lost", True)
    assert lost["since"]


def test_the_overview_leads_to_what_is_open(client):
    shown = client.get("/").content.decode()
    assert '<a href="/nodes/n1/">n1</a>: node lost.' in shown
    assert '<a href="/deployments/chat/">chat</a>: unplaced.' in shown


def test_incidents_are_listed_with_who_was_told(client, settings):
    settings.WEIR_ALERT_URL = "https://ops.example.com/weir"
    actions.watch(timezone.now())
    listed = client.get("/api/incidents/").json()
    assert {one["kind"] for one in listed} == {"unplaced", "node lost"}
    [letter] = listed[0]["letters"]
    told = (letter["event"], letter["url"], letter["delivery"])
    assert told == ("opened", "https://ops.example.com/weir", "waiting")
    shown = client.get("/incidents/").content.decode()
    for words in ("waits for a place: n1 is lost", "opened: waiting", "whsec_"):
        assert words in shown
    assert 'href="/incidents/"' in client.get("/").content.decode()


def test_without_a_url_the_page_says_how_to_be_told(client, settings):
    settings.WEIR_ALERT_URL = ""
    shown = client.get("/incidents/").content.decode()
    assert "WEIR_ALERT_URL" in shown
    assert "whsec_" not in shown
