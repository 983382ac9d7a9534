"""The page of costs shows every line of device time, a sum of 100 %, and says what is missing."""

from decimal import Decimal

import pytest

from control.metering.cost import hours, measuring
from control.metering.cost.actions import save_cost_pool, save_cost_rate
from control.metering.cost.rules import HOUR, hour_of
from control.metering.cost.wanted import cost_pool_wanted, cost_rate_wanted
from control.models import (
    AuditEntry,
    CostHour,
    Deployment,
    Replica,
    TokenWeights,
    Variant,
    Version,
)
from tests.console.conftest import AT, BY
from tests.console.test_usage import a_call
from tests.metering.device_time import seen

DAY = f"since={AT:%Y-%m-%d}&until={AT:%Y-%m-%d}"


@pytest.fixture
def used(fleet) -> Replica:
    """Two tenants' calls on one card, another card free, and a rate without a draw."""
    fleet(1)
    fleet(2)
    a_call(1)
    a_call(3, tenant="tenant-2")
    replica = Replica.objects.filter(state="ready").first()
    rate = cost_rate_wanted("*", "USD", {"hardware_per_hour": "2.00", "power_per_kwh": "0.10"})
    save_cost_rate(rate, **BY)
    save_cost_pool(cost_pool_wanted("default", "proportional"), **BY)
    lines = {("busy", replica.pk): 900, ("idle", replica.pk): 1500, ("warm_up", replica.pk): 1200}
    seen("GPU-1", AT, lines)
    seen("GPU-2", AT, {("free", 0): 3600})
    hours.make(hour_of(AT), AT)
    return replica


def test_an_empty_platform_says_what_to_do(console):
    shown = console.get("/costs/")
    assert shown.status_code == 200
    assert b"weir-empty" in shown.content


def test_lines_stand_beside_their_sum_and_parts(console, used):
    shown = console.get(f"/costs/?{DAY}").content.decode()
    for word in (
        *("Serving, busy", "12.50 %", "20.83 %", "Warm-up", "16.67 %", "Unallocated", "50.00 %"),
        *("100.00 %", "Hardware", "partly assumed", "draw 300 W", "4.06", "proportional"),
    ):
        assert word in shown
    [pool] = console.get(f"/costs/?{DAY}").context["pools"]
    assert sum(line.percent for line in pool.lines) == 100
    assert sum(line.cost for line in pool.lines) == pool.cost
    [busy] = [line.cost for line in pool.lines if line.line == "busy"]
    assert pool.failure_and_idle == pool.cost - busy  # warm-up and what nobody used
    assert "failure and idle" in shown


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("version", ["Idle share", "device hours x (hardware"]),
        ("tenant", ["tenant-1", "tenant-2", "Taken over of it"]),
        ("deployment", ["dep-"]),
        ("day", [f"{AT:%Y-%m-%d}"]),
        ("hour", [f"{AT:%H}:00"]),
        ("nonsense", ["The period shown is this month."]),
    ],
)
def test_costs_are_grouped_by_what_is_chosen(console, used, group, words):
    shown = console.get(f"/costs/?{DAY}&group={group}").content.decode()
    for word in words:
        assert word in shown


def test_what_tenants_pay_sums_to_the_pool(console, used):
    rows = console.get(f"/costs/?{DAY}&group=tenant").context["rows"]
    [pool] = console.get(f"/costs/?{DAY}").context["pools"]
    assert sum(row.cost for row in rows) == pool.cost
    assert {row.utilisation_ratio for row in rows} == {pool.utilisation_ratio} == {0.125}


def test_more_hours_ask_no_more_queries(console, used, django_assert_max_num_queries):
    console.get(f"/costs/?{DAY}")
    with django_assert_max_num_queries(24):
        console.get(f"/costs/?{DAY}")


def test_advice_says_what_variants_would_have_cost(console, used):
    other = Version.objects.exclude(pk=used.version_id).first()
    Variant.objects.create(of=used.version, version=other, kind="quantised", created_at=AT)
    shown = console.get(f"/costs/?{DAY}").content.decode()
    for word in ("The same calls on another version", str(other), "has served nothing"):
        assert word in shown


def measured_hours(replica: Replica) -> None:
    """Thirty hours at work for tokens of 1 : 0.1 : 4."""
    begin = hour_of(AT) - 40 * HOUR
    CostHour.objects.bulk_create(
        CostHour(
            hour=begin + number * HOUR,
            pool="default",
            currency="USD",
            line="busy",
            deployment=replica.deployment,
            version=replica.version,
            device_microseconds=10 * (fresh + cached // 10 + 4 * made),
            input_tokens=fresh + cached,
            cached_input_tokens=cached,
            output_tokens=made,
        )
        for number in range(30)
        for fresh, cached, made in [
            (10**6 + number % 7 * 10**5, (1 + number % 3) * 10**6, 2 * 10**7 + number % 4 * 10**6)
        ]
    )


def test_measured_weights_hold_when_somebody_says_so(console, used):
    measured_hours(used)
    model, version = used.version.model.name, used.version.name
    [one] = [it for it in measuring.weighings(AT) if it.version == version and it.output]
    assert (one.cached_input, one.output, one.hours) == (Decimal("0.1"), 4, 30)
    measuring.take_over(model, version, **BY)
    row = TokenWeights.objects.get()
    assert (row.source, row.hours, row.version) == ("measured", 30, used.version)
    assert AuditEntry.objects.filter(action="save token weights").count() == 1


def test_weights_that_cannot_be_measured_say_why(console, used):
    shown = console.get(f"/costs/?{DAY}").content.decode()
    assert "at least 24 are needed" in shown or "it served in none" in shown


def test_the_api_tells_costs_advice_and_weights(console, used):
    month = f"{AT:%Y-%m}"
    [pool] = console.get(f"/api/costs/?month={month}").json()
    assert (pool["group"], pool["currency"], pool["cost"]) == (["default"], "USD", "4.060000")
    assert [line["line"] for line in pool["lines"]] == ["busy", "idle", "warm_up", "free"]
    by_tenant = console.get(f"/api/costs/?month={month}&group=tenant").json()
    assert {row["group"][0] for row in by_tenant} == {"tenant-1", "tenant-2", None}
    assert console.get("/api/costs/?group=colour").status_code == 400
    assert console.get("/api/costs/advice/").json() == {"variants": [], "quantised": []}
    assert console.get("/api/costs/weights/").status_code == 200
    named = {"model": used.version.model.name, "version": "none"}
    answer = console.post("/api/costs/weights/", named, content_type="application/json")
    assert answer.status_code == 400
    assert "cannot be measured" in answer.content.decode()
    assert Deployment.objects.count() == 2
