"""A tenant's figures are those of its events, by its own days, and nobody else's."""

from datetime import UTC, date, datetime

import pytest
from django.test import Client

from control.metering.ingest import ship
from control.metering.own import facts, rules
from control.models import Tenant, UsageEvent
from control.routes import passes
from tests.metering.conftest import AT, House, a_house, spool

COST = 80 * 1_000_000 + 20 * 250_000 + 50 * 4_000_000
EXACT = "0.000285"


@pytest.fixture
def busy(house, tmp_path) -> House:
    """One call at 15:59 and one at 16:00 UTC of a day, and another tenant's."""
    other = a_house("rival")
    times = (datetime(2026, 11, 30, 15, 59, tzinfo=UTC), datetime(2026, 11, 30, 16, tzinfo=UTC))
    closes = [
        house.close(f"c-{number}", started_at=at.timestamp(), ended_at=at.timestamp() + 1)
        for number, at in enumerate(times)
    ]
    rivals = other.close("c-9", started_at=times[0].timestamp(), ended_at=times[0].timestamp())
    spool(tmp_path, *closes, rivals)
    ship(tmp_path, (), AT)
    return house


def own(timezone: str, **given: str) -> facts.OwnUsage:
    Tenant.objects.filter(name="acme").update(timezone=timezone)
    return facts.usage(rules.asked({"month": "2026-11"} | given, AT, timezone), "acme")


@pytest.mark.parametrize(
    ("timezone", "days"),
    [
        ("UTC", [(date(2026, 11, 30), 2)]),
        ("Asia/Shanghai", [(date(2026, 11, 30), 1)]),  # the other is December's
        ("America/New_York", [(date(2026, 11, 30), 2)]),
        ("Asia/Kolkata", [(date(2026, 11, 30), 2)]),  # half an hour off: from events
    ],
)
def test_days_and_months_are_the_tenants(busy, timezone, days):
    usage = own(timezone)
    assert [(row.group[0], row.calls) for row in usage.rows] == days
    assert usage.total.calls == sum(calls for _, calls in days)


def test_figures_are_exact_and_those_of_the_events(busy):
    usage = own("UTC", group_by="model,key")
    [row] = usage.rows
    assert row.group == ("gemma", "ci")
    assert (row.calls, row.input_tokens, row.cached_input_tokens) == (2, 200, 40)
    events = UsageEvent.objects.filter(tenant=busy.tenant)
    assert sum(event.amount_pico for event in events) == 2 * COST
    assert row.amounts == (("USD", "0.00057"),)
    assert usage.total == facts.OwnRow((), *[getattr(row, n) for n in ("calls", *facts.COUNTS)],
                                       row.amounts)  # fmt: skip


def test_more_groups_than_asked_for_are_told_of(busy):
    usage = own("Asia/Kolkata", group_by="day,key", limit="1")
    assert (len(usage.rows), usage.has_more) == (1, False)
    usage = own("UTC", group_by="key", key="nobody")
    assert (usage.rows, usage.total.calls) == ((), 0)


def test_the_total_is_of_all_groups_however_many_are_read(busy, tmp_path, monkeypatch):
    spool(tmp_path, busy.close("c-5"), owner="gw-2")
    ship(tmp_path, (), AT)
    monkeypatch.setattr(facts, "GROUPS_MAX", 1)
    usage = own("UTC", group_by="key,day")
    assert (len(usage.rows), usage.has_more) == (1, True)
    assert (usage.total.calls, usage.total.amounts) == (3, (("USD", "0.000855"),))


# --- as web answers it ---


def get(client: Client, key_id: int | None, query: str = ""):
    target = f"/v1/usage{query}"
    at = datetime.now(UTC).timestamp()
    if key_id is None:
        return client.get(target)
    told = passes.pass_of(key_id, "GET", target.encode(), at)
    return client.get(target, headers={passes.HEADER: told})


def test_web_answers_a_key_with_its_projects_usage(client, busy):
    answer = get(client, busy.key.pk, "?month=2026-11&group_by=day").json()
    assert (answer["object"], answer["tenant"], answer["project"]) == ("usage", "acme", "default")
    assert answer["data"] == [
        {
            "day": "2026-11-30",
            "calls": 2,
            "input_tokens": 200,
            "cached_input_tokens": 40,
            "output_tokens": 100,
            "reasoning_tokens": 0,
            "amounts": [{"currency": "USD", "amount": "0.00057"}],
        }
    ]


def test_web_answers_nobody_else(client, busy):
    assert get(client, None).status_code == 401
    forged = {passes.HEADER: f"{busy.key.pk}.1.00"}
    assert client.get("/v1/usage", headers=forged).status_code == 401
    assert get(client, 10**9).status_code == 401


@pytest.mark.parametrize("query", ["?project=other", "?tenant=rival", "?month=x", "?limit=0"])
def test_web_says_what_is_wrong_as_the_gateway_does(client, busy, query):
    answer = get(client, busy.key.pk, query)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"] == query[1:].partition("=")[0]
