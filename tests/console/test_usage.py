"""Usage shows what was used and what it cost, filtered by the address; the export is the same."""

import csv
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from control.metering.books.actions import rebuild_hours
from control.metering.cost import hours
from control.metering.cost.actions import save_cost_rate
from control.metering.cost.rules import hour_of
from control.metering.cost.wanted import cost_rate_wanted
from control.metering.prices.actions import save_price
from control.metering.prices.wanted import price_wanted
from control.models import Key, Replica, SpoolPosition, UsageEvent
from tests.console.conftest import AT, BY
from tests.metering.device_time import seen

DAY = f"since={AT:%Y-%m-%d}&until={AT:%Y-%m-%d}"


def a_call(number: int, *, tenant: str = "tenant-1", at=AT, **fields) -> UsageEvent:
    replica = Replica.objects.filter(state="ready").first()
    key = Key.objects.get(tenant__name=tenant)
    whole = {
        "call_id": f"req_{tenant}_{number}",
        "route": "route-1",
        "version": replica.version,
        "replica_id": replica.pk,
        "endpoint": "/v1/chat/completions",
        "stream": True,
        "priority": "standard",
        "outcome": "complete",
        "status": 200,
        "input_tokens": 1000,
        "cached_input_tokens": 100,
        "output_tokens": 200,
        "tokens_source": "engine",
        "started_at": at,
        "first_token_at": at + timedelta(milliseconds=120),
        "ended_at": at + timedelta(seconds=2),
        "currency": "USD",
        "amount_pico": 250_000_000,
        "content_hash": "0" * 64,
    }
    owner = {"tenant": key.tenant, "project": key.project, "key": key}
    return UsageEvent.objects.create(**owner, **whole | fields)


@pytest.fixture
def used(fleet):
    """Two tenants' calls, device time, a price and a cost rate."""
    fleet(1)
    fleet(2)
    a_call(1)
    a_call(2, at=AT - timedelta(days=1))
    a_call(3, tenant="tenant-2")
    rebuild_hours(AT - timedelta(days=2), AT + timedelta(days=1))
    replica = Replica.objects.filter(state="ready").first()
    model = replica.version.model.name
    save_price(price_wanted(model, "USD", {"input": "0.10", "output": "0.40"}), **BY)
    save_cost_rate(cost_rate_wanted("*", "USD", {"hardware_per_hour": "2.00"}), **BY)
    lines = {("busy", replica.pk): 900, ("idle", replica.pk): 2700}
    seen("GPU-1", AT, lines)
    hours.make(hour_of(AT), AT)


def test_costs_stand_beside_utilisation_idle_cost_and_formula(console, used):
    shown = console.get(f"/usage/?{DAY}").content.decode()
    for word in ("25.0 %", "1.50", "2.00", "USD", "device hours x (hardware", "Utilisation"):
        assert word in shown
    [cost] = console.get(f"/usage/?{DAY}").context["costs"]
    assert cost.per_million.output > cost.per_million.input > 0


@pytest.mark.parametrize(
    ("query", "calls"),
    [
        (DAY, 2),
        (f"{DAY}&tenant=tenant-2", 1),
        (f"{DAY}&key=none", 0),
        (f"since={AT - timedelta(days=1):%Y-%m-%d}&until={AT:%Y-%m-%d}", 3),
    ],
)
def test_the_address_filters_page_and_export_alike(console, used, query, calls):
    shown = console.get(f"/usage/?{query}")
    assert sum(row.calls for row in shown.context["rows"]) == calls
    answer = console.get(f"/usage/calls.csv?{shown.context['asked'].query}")
    rows = list(csv.DictReader(exported(answer).splitlines()))
    assert len(rows) == calls
    assert all(row["amount"] == "0.00025" for row in rows)


def exported(answer) -> str:
    async def whole() -> bytes:
        return b"".join([part async for part in answer])

    assert answer["Content-Disposition"].startswith('attachment; filename="weir-usage-')
    return async_to_sync(whole)().decode()


@pytest.mark.parametrize("group", ["model", "tenant", "day", "route", "key", "outcome"])
def test_usage_is_grouped_by_what_is_chosen(console, used, group):
    shown = console.get(f"/usage/?{DAY}&group={group}")
    assert shown.status_code == 200
    assert f"By {group}" in shown.content.decode()


@pytest.mark.parametrize(
    "query",
    ["since=tomorrow", "since=2026-02-02&until=2026-01-01", "since=2020-01-01&until=2026-01-01"],
)
def test_days_that_cannot_be_are_said_beside_the_filter(console, db, query):
    shown = console.get(f"/usage/?{query}")
    assert shown.status_code == 200
    assert b"field-error" in shown.content


def test_without_calls_it_says_when_there_will_be_some(console, db):
    shown = console.get("/usage/").content
    assert b"No calls match" in shown
    assert b"No device time and no calls" in shown


def test_more_calls_ask_no_more_queries(console, used):
    console.get(f"/usage/?{DAY}")
    with CaptureQueriesContext(connection) as few:
        console.get(f"/usage/?{DAY}")
    for number in range(10, 20):
        a_call(number)
    with CaptureQueriesContext(connection) as many:
        console.get(f"/usage/?{DAY}")
    assert len(many) == len(few) <= 18


def test_a_spool_that_nobody_ships_is_named(console, used):
    at = timezone.now()
    SpoolPosition.objects.create(owner="gw-7", segment=1, offset=0, at=at, read_until=at)
    assert "gw-7 was last" not in console.get("/usage/").content.decode()
    SpoolPosition.objects.update(at=at - timedelta(minutes=3), open_calls=2)
    shown = console.get("/usage/").content.decode()
    assert "The spool gw-7 was last shipped" in shown
    assert "with 2 calls running" in shown
    assert "stored: all that ended before" in shown
