"""Hours of cost from rows, which sum to the time and the cost of the devices."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from control.metering.cost import figures, hours
from control.metering.cost.facts import costs
from control.metering.cost.lines import Line
from control.metering.cost.rules import HOUR
from control.metering.ingest import ship
from control.models import Attempt, CostHour, CostPool, CostRate, Deployment, Replica
from tests.metering.conftest import AT, a_house, spool
from tests.metering.device_time import SECOND, seen

LATER = AT + HOUR
DAY = timedelta(days=1)


@pytest.fixture
def replica(house) -> Replica:
    deployment = Deployment.objects.create(name="gemma", version=house.version)
    return Replica.objects.create(
        deployment=deployment, generation=1, version=house.version, ready_at=AT - DAY
    )


@pytest.fixture
def rate(db) -> CostRate:
    return CostRate.objects.create(
        device="*",
        currency="CNY",
        hardware_per_hour=Decimal("8.68"),
        power_watts=400,
        power_per_kwh=0,
        pue=1,
        engineering_per_hour=0,
        valid_from=datetime(2026, 11, 1, tzinfo=UTC),
    )


def a_close(house, replica: Replica, number: int, begin: float, end: float, **changes):
    """A call from so many seconds after the hour to so many."""
    start = AT.timestamp()
    values = {"replica_id": replica.pk, "started_at": start + begin, "ended_at": start + end}
    return house.close(f"req_{number}", **values | {"first_token_at": None} | changes)


def store(directory, *closes) -> None:
    spool(directory, *closes)
    ship(directory, set(), AT)


def time_of(**only) -> int:
    return sum(CostHour.objects.filter(**only).values_list("device_microseconds", flat=True))


def test_all_lines_of_an_hour_sum_to_the_time_that_its_devices_were_there(
    house, replica, rate, tmp_path
):
    store(tmp_path, a_close(house, replica, 1, 0, 10))
    lines = {(Line.BUSY, replica.pk): 600, (Line.IDLE, replica.pk): 2000}
    seen("GPU-1", AT - HOUR, {(Line.FREE, 0): 3600})
    seen("GPU-1", AT, lines)
    seen("GPU-1", AT + 2 * HOUR, {(Line.LOADING, replica.pk): 300, (Line.WARM_UP, replica.pk): 60})
    seen("GPU-2", AT, {(Line.QUARANTINE, 0): 3600})
    assert hours.refresh(AT + 3 * HOUR) == 4
    [pool] = costs(["pool"], AT, AT + 3 * HOUR)
    assert [(line.line, line.device_seconds) for line in pool.lines] == [
        ("busy", 600.0),
        ("idle", 2000.0),
        ("loading", 300.0),
        ("warm_up", 60.0),
        ("quarantine", 3600.0),
        ("unseen", 1000.0 + 3600.0),
    ]
    assert sum(line.percent for line in pool.lines) == 100
    assert sum(line.device_seconds for line in pool.lines) == pool.device_seconds == 11_160.0
    assert sum(line.cost for line in pool.lines) == pool.cost
    assert pool.idle_cost == pool.cost - pool.lines[0].cost


def test_what_tenants_pay_and_what_is_left_sum_to_what_the_pool_cost(
    house, replica, rate, tmp_path
):
    other = a_house("globex")
    store(tmp_path, a_close(house, replica, 1, 0, 30), a_close(other, replica, 2, 0, 10))
    seen("GPU-1", AT, {(Line.BUSY, replica.pk): 900, (Line.FREE, 0): 2700})
    for policy, ratio, left in (
        ("proportional", 1, "0.000000"),
        ("unallocated", 1, "6.510000"),
        ("unallocated", Decimal("0.5"), "4.340000"),
        ("reserved", 1, "2.170000"),
    ):
        CostPool.objects.create(
            pool="default", idle=policy, practical_ratio=ratio, valid_from=AT - DAY
        )
        house.project.devices_guaranteed, other.project.devices_guaranteed = 1, 1
        house.project.save()
        hours.make(AT, AT)
        rows = {row.group[0]: row for row in costs(["tenant"], AT, LATER)}
        assert sum(row.cost for row in rows.values()) == Decimal("8.68")
        if policy != "reserved":
            assert str(rows[None].cost) == left
            assert rows["acme"].cost == 3 * rows["globex"].cost
        else:
            assert (rows["acme"].cost, rows["globex"].cost) == (
                Decimal("1.6275") + Decimal("6.51"),
                Decimal("0.5425"),
            )
        assert set(CostHour.objects.values_list("idle_policy", flat=True)) == {policy}


def test_work_that_the_platform_did_not_finish_is_on_the_failure_line(
    house, replica, rate, tmp_path
):
    failed = {"outcome": "upstream_error", "status": 502, "output_tokens": 0}
    failed |= {"delivered_tokens": 0, "input_tokens": 100, "cached_input_tokens": 0}
    gone = {"outcome": "client_closed", "status": 499} | {
        name: failed[name] for name in ("output_tokens", "delivered_tokens")
    }
    store(
        tmp_path,
        a_close(house, replica, 1, 0, 10, **failed),
        a_close(house, replica, 2, 0, 10, cached_input_tokens=0, **gone),
    )
    tried = {"input_tokens": 100, "output_tokens": 0, "tokens_source": "estimated"}
    for number, purpose in enumerate(("retry", "probe"), 1):
        Attempt.objects.create(
            call_id="req_2",
            number=number,
            replica_id=replica.pk,
            purpose=purpose,
            outcome="upstream_error",
            started_at=AT,
            ended_at=AT + timedelta(seconds=10),
            **tried,
        )
    seen("GPU-1", AT, {(Line.BUSY, replica.pk): 300})
    hours.make(AT, AT)
    assert time_of(line=Line.FAILURE) == 200 * SECOND
    assert time_of(line=Line.BUSY, tenant=house.tenant) == 100 * SECOND
    [row] = CostHour.objects.filter(line=Line.FAILURE)
    assert (row.calls, row.input_tokens, row.tenant_id) == (1, 0, None)


def test_a_call_that_waited_for_a_launch_counts_from_when_that_was_ready(
    house, replica, rate, tmp_path
):
    other = a_house("globex")
    replica.ready_at = AT + timedelta(seconds=90)
    replica.save()
    tokens = {"input_tokens": 0, "cached_input_tokens": 0}
    store(
        tmp_path,
        a_close(house, replica, 1, 0, 100, **tokens),
        a_close(other, replica, 2, 90, 100, **tokens),
    )
    seen("GPU-1", AT, {(Line.BUSY, replica.pk): 10})
    hours.make(AT, AT)
    assert time_of(tenant=house.tenant) == time_of(tenant=other.tenant) == 5 * SECOND


def test_a_call_over_the_full_hour_is_at_work_in_both(house, replica, rate, tmp_path):
    store(tmp_path, a_close(house, replica, 1, 3590, 3610))
    for at in (AT, LATER):
        seen("GPU-1", at, {(Line.BUSY, replica.pk): 10, (Line.IDLE, replica.pk): 3590})
    hours.refresh(LATER + HOUR)
    assert time_of(tenant=house.tenant) == 20 * SECOND
    assert list(CostHour.objects.filter(calls__gt=0).values_list("hour", "calls")) == [(AT, 1)]


def test_an_hour_is_made_again_only_when_what_it_was_made_of_changed(
    house, replica, rate, tmp_path
):
    seen("GPU-1", AT, {(Line.BUSY, replica.pk): 600, (Line.IDLE, replica.pk): 3000})
    at = LATER + HOUR
    assert hours.refresh(at) == 1
    assert hours.refresh(at) == 0
    store(tmp_path, a_close(house, replica, 1, 0, 10))
    assert hours.due(AT, at) == [AT]
    hours.refresh(at)
    rows = set(CostHour.objects.values_list("line", "device_microseconds", "hardware_pico"))
    assert hours.rebuild(AT, at, at) == 1
    assert rows == set(CostHour.objects.values_list("line", "device_microseconds", "hardware_pico"))
    assert hours.due(AT, at) == []


def test_a_call_on_no_device_of_ours_has_tokens_and_no_cost(house, rate, tmp_path):
    store(tmp_path, house.close("req_1", replica_id=None))
    hours.make(AT, AT)
    [row] = costs(["tenant"], AT, LATER)
    assert (row.calls, row.cost, row.reason) == (1, None, figures.NO_DEVICES)


def test_a_month_of_hours_is_read_with_few_queries(
    house, replica, rate, tmp_path, django_assert_max_num_queries
):
    for number in range(30):
        seen("GPU-1", AT + number * HOUR, {(Line.IDLE, replica.pk): 3600})
    hours.rebuild(AT, AT + 30 * HOUR, AT)
    with django_assert_max_num_queries(3):
        rows = costs(["day", "deployment"], AT, AT + 30 * HOUR)
    assert [Fraction(row.cost) for row in rows] == [Fraction("8.68") * 12, Fraction("8.68") * 18]
