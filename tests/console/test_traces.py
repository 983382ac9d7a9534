"""Kept calls are found by operators: by code, by id, with the figures that decided."""

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from control.models import CallTrace, Key
from tests.console.conftest import AT

WHY = {"decision": "TooLong", "prompt_tokens": 4321, "tokens_max": 100}


def kept(number: int, **changes) -> CallTrace:
    values = {
        "call_id": f"req_{number:032x}",
        "key_id": Key.objects.values_list("pk", flat=True).first() or 0,
        "route": "chat",
        "kept": "refused",
        "outcome": "refused",
        "status": 400,
        "error": "context_length_exceeded",
        "started_at": AT + timedelta(seconds=number),
        "ended_at": AT + timedelta(seconds=number, milliseconds=5),
        "stages": {"settle": 5000},
        "decisions": [WHY],
    }
    return CallTrace.objects.create(**values | changes)


@pytest.fixture
def traces(fleet):
    fleet(1)
    tries = [{"replica_id": 7, "why": "upstream_error"}]
    failed = {"kept": "failed", "outcome": "upstream_error", "error": "upstream_error"}
    return [kept(1), kept(2, **failed, tries=tries), kept(3, key_id=0, error="invalid_api_key")]


def test_they_are_listed_by_why_and_by_code(console, traces):
    shown = console.get("/usage/traces/").content.decode()
    for one in traces:
        assert one.call_id in shown
    assert "without a valid key" in shown
    for query, found in (("kept=failed", 1), ("code=invalid_api_key", 2), ("route=none", None)):
        shown = console.get(f"/usage/traces/?{query}").content.decode()
        told = [number for number, one in enumerate(traces) if one.call_id in shown]
        assert told == ([] if found is None else [found])


def test_one_is_shown_with_the_figures_that_decided(console, traces):
    shown = console.get(f"/usage/traces/{traces[0].call_id}/").content.decode()
    for word in ("TooLong", "4321", "tenant-1", "settle", "5.000", "context_length_exceeded"):
        assert word in shown
    shown = console.get(f"/usage/traces/{traces[1].call_id[4:]}/").content.decode()
    assert "Given up" in shown
    assert console.get("/usage/traces/req_none/").status_code == 404


def test_an_id_leads_to_its_call(console, traces):
    asked = {"call": traces[0].call_id}
    assert console.get("/usage/traces/", asked).url == f"/usage/traces/{traces[0].call_id}/"


def test_more_of_them_cost_no_more_queries(console, traces):
    console.get("/usage/traces/")
    with CaptureQueriesContext(connection) as few:
        console.get("/usage/traces/")
    for number in range(4, 12):
        kept(number)
    with CaptureQueriesContext(connection) as many:
        console.get("/usage/traces/")
    assert len(many) == len(few)


def test_the_api_tells_the_same(console, traces):
    told = console.get("/api/traces/", {"kept": "refused"}).json()
    assert [one["call_id"] for one in told] == [traces[2].call_id, traces[0].call_id]
    one = console.get(f"/api/traces/{traces[0].call_id}/").json()
    [decision] = one["decisions"]
    assert decision["name"] == "TooLong"
    assert json.loads(decision["figures"]) == {"prompt_tokens": 4321, "tokens_max": 100}
    assert console.get("/api/traces/req_none/").status_code == 404
    assert console.get("/api/traces/", {"kept": "odd"}).status_code == 400


def test_usage_leads_there(console, traces):
    assert b"/usage/traces/" in console.get("/usage/").content
