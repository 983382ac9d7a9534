"""Drift is shown with its incidents, which a person closes with a reason; on the shell too."""

import io
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console import parts
from control.metering.drift.external import actions as external
from control.models import AuditEntry, Drift, Replica
from engines.spec import EngineLoad
from tests.fleet.rows import a_deployment, a_replica, a_version

CALL = {"call_id": "req_7", "number": 1, "purpose": "call", "outcome": "client_closed"}
CALL |= {"source": "estimated", "input_tokens": 9, "output_tokens": 0, "may_be_off": 4321}


def an_hour(replica: Replica, ago: int = 2, **changes) -> Drift:
    hour = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=ago)
    names = [field.name for field in Drift._meta.fields if field.name.endswith(("tokens", "_max"))]
    names += [field.name for field in Drift._meta.fields if field.name.endswith("_min")]
    values = dict.fromkeys(names, 0) | {"engine_input_tokens": 5200, "input_tokens": 200}
    times = {"hour": hour, "begin_at": hour, "end_at": hour + timedelta(minutes=59)}
    times["judged_at"] = hour + timedelta(minutes=90)
    return Drift.objects.create(replica=replica, **values | times | changes)


@pytest.fixture
def incident(fleet):
    fleet(1)
    replica = Replica.objects.order_by("pk").first()
    return an_hour(replica, unexplained_input_tokens=5000, is_incident=True, calls=[CALL])


def test_an_incident_is_shown_with_its_calls_and_closed_with_a_reason(console, incident):
    shown = console.get("/usage/drift/").content.decode()
    for word in ("the engine and the books disagree", "+5,000 input", "req_7", "4,321", "5,200"):
        assert word in shown
    address = f"/usage/drift/{incident.pk}/close/"
    assert "say what it was" in console.post(address, {"reason": ""}, follow=True).content.decode()
    shown = console.post(address, {"reason": "a benchmark"}, follow=True).content.decode()
    assert "disagree" not in shown
    assert "closed by" in shown
    assert AuditEntry.objects.get(action="close drift incident").reason == "a benchmark"


def test_the_overview_says_that_there_is_one(console, incident):
    assert "The books and the engines disagree" in console.get("/").content.decode()
    Drift.objects.update(closed_at=timezone.now())
    assert "disagree" not in console.get("/").content.decode()


def test_an_empty_platform_says_how_to_judge_now(console):
    assert b"weir drift --now" in console.get("/usage/drift/").content
    assert b"/usage/drift/" in console.get("/usage/").content


@pytest.fixture
def outside(fleet) -> Replica:
    fleet(1)
    version = a_version("out", engine={"kind": "external", "url": "http://127.0.0.1:9"})
    return a_replica(a_deployment("outside", version=version), at=timezone.now())


def test_engines_whose_counters_are_not_read_are_named_with_the_reason(console, outside):
    def shown() -> str:
        return console.get("/usage/drift/").content.decode()

    at = timezone.now()
    assert "<strong>outside#1: not read</strong>, it was not tried yet" in shown()
    external.not_read(outside.pk, "/metrics answers 404", at, counts_on=True)
    assert "<strong>outside#1: not read</strong>, /metrics answers 404" in shown()
    assert console.get("/api/drift/unread/").json() == [
        {"replica": "outside#1", "why": "/metrics answers 404"}
    ]
    external.note(outside.pk, EngineLoad(), at)
    assert "not read" not in shown()
    external.not_read(outside.pk, "ConnectError", at, counts_on=True)
    assert "ConnectError" in shown()
    Replica.objects.filter(pk=outside.pk).update(state="stopped")
    assert "not read" not in shown()


def test_the_shell_names_them_too(outside):
    external.not_read(outside.pk, "/metrics answers 404", timezone.now(), counts_on=True)
    said = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("drift", stdout=io.StringIO(), stderr=said)
    assert "outside#1: its counters are not read: /metrics answers 404\n" in said.getvalue()


def test_the_live_part_asks_four_questions_however_many_hours_there_are(console, incident):
    for ago in range(3, 20):
        an_hour(incident.replica, ago)
    with CaptureQueriesContext(connection) as asked:
        html = parts.html("drift", timezone.now())
    assert len(asked) == 4
    assert html.count("<tr>") == 19


def test_the_shell_says_so_too_and_fails_while_an_incident_is_open(incident):
    said = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("drift", "--now", stdout=said)
    assert ended.value.code == 1
    assert "input: engine 5,200, attempts 200, unexplained +5,000" in said.getvalue()
    assert said.getvalue().endswith("INCIDENT\n")
    Drift.objects.update(closed_at=timezone.now())
    with pytest.raises(SystemExit) as ended:
        call_command("drift", "--json", stdout=io.StringIO())
    assert ended.value.code == 0
