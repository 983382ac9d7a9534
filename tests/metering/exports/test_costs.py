"""Cost split to tenants and lines: ratios sum to one, rows to what the devices cost."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow.parquet as pq
import pytest
from django.db.models import Value
from django.db.models.functions import Concat

from control.checks import Refused
from control.metering.cost import hours
from control.metering.exports import schedules, shares
from control.metering.exports.costs import CostsWanted, costs_csv, costs_parquet
from control.metering.exports.wanted import ScheduleWanted
from control.metering.invoices import actions
from control.metering.rules import PICO
from control.models import AuditEntry, BillingTerms, CostHour, Tenant
from tests.metering.conftest import AT
from tests.metering.invoices.months import DECEMBER_3, close, store

NOVEMBER = CostsWanted("2026-11")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([1, 1, 1], ["0.333334", "0.333333", "0.333333"]),
        ([0, 0], ["1", "0"]),
        ([5], ["1"]),
        ([10**20, 1, 1], ["1", "0", "0"]),
        ([-1, 3], ["-0.5", "1.5"]),  # what idle time was given away for
        ([2, 2, 3], ["0.285714", "0.285714", "0.428572"]),
    ],
)
def test_the_rounding_of_ratios_is_the_largest_ones(amounts, expected):
    for number, pico in enumerate(amounts):
        tenant = Tenant.objects.create(name=f"t{number}")
        an_hour(datetime(2026, 11, 3, tzinfo=UTC), pico=pico, tenant=tenant)
    [page] = shares.by_now("2026-11")
    assert [share.ratio for share in page] == list(map(Decimal, expected))


def an_hour(at: datetime, *, pico: int, pool="a100", line="busy", tenant=None, number=1) -> None:
    CostHour.objects.create(
        hour=at,
        pool=pool,
        line=line,
        tenant=tenant,
        device_microseconds=number * 600_000_000,
        currency="CNY",
        hardware_pico=pico,
    )


@pytest.fixture
def month(db) -> Decimal:
    """Two tenants, idle time, two pools."""
    tenants = [Tenant.objects.create(name=name) for name in ("first", "other")]
    whole = 0
    for number, (pool, tenant, line) in enumerate(
        [("a100", 0, "busy"), ("a100", 1, "busy"), ("a100", None, "idle"), ("h100", 0, "busy")], 1
    ):
        for hour in range(3):
            pico = number * PICO // 7
            whole += pico
            whose = None if tenant is None else tenants[tenant]
            at = datetime(2026, 11, 3, hour, tzinfo=UTC)
            an_hour(at, pico=pico, pool=pool, line=line, tenant=whose, number=number)
    return Decimal(whole).scaleb(-12)


def test_rows_sum_to_what_the_devices_cost(month):
    table = pq.read_table(io.BytesIO(b"".join(costs_parquet(NOVEMBER)))).to_pylist()
    assert sum(row["BilledCost"] for row in table) == month
    told = list(csv.DictReader(io.StringIO(b"".join(costs_csv(NOVEMBER)).decode())))
    assert [Decimal(row["BilledCost"]) for row in told] == [row["BilledCost"] for row in table]


def test_each_origin_is_split_to_one_with_a_row_for_what_nobody_used(month):
    parts = defaultdict(Decimal)
    names = set()
    for row in csv.DictReader(io.StringIO(b"".join(costs_csv(NOVEMBER)).decode())):
        [element] = json.loads(row["AllocatedMethodDetails"], parse_float=Decimal)["Elements"]
        parts[row["ResourceId"]] += element["AllocatedRatio"]
        assert element["UsageUnit"] == "GPU-Hours"
        assert row["AllocatedMethodId"] == "gpu-time-v1"
        names.add(row["AllocatedResourceId"])
    assert parts == {"pool-a100": 1, "pool-h100": 1}
    assert names == {"first", "other", "unallocated idle"}


def test_a_month_without_devices_has_only_its_columns(db):
    assert b"".join(costs_csv(NOVEMBER)).count(b"\n") == 1
    assert pq.read_table(io.BytesIO(b"".join(costs_parquet(NOVEMBER)))).num_rows == 0


@pytest.fixture
def files(month) -> Callable[[], tuple[bytes, bytes]]:
    return lambda: tuple(b"".join(write(NOVEMBER)) for write in (costs_csv, costs_parquet))


def test_a_closed_month_is_the_same_bytes_after_new_figures(files):
    BillingTerms.objects.create(pk=1, issuer="Example Ltd", region_id="cn-1")
    before = files()
    assert shares.freeze("2026-11", DECEMBER_3)
    assert files() == before
    CostHour.objects.update(hardware_pico=1)
    BillingTerms.objects.update(issuer="Another Ltd")
    Tenant.objects.update(name=Concat("name", Value("x")))
    assert files() == before
    assert not shares.freeze("2026-11", DECEMBER_3)
    assert AuditEntry.objects.get(action="freeze costs").after == {"shares": 4}


def test_a_month_is_frozen_once_it_is_closed_for_all(files, house, tmp_path):
    store(tmp_path, house.close("req_1"))
    actions.tick(AT)
    assert "it is not closed for all tenants" in shares.why_not_freeze("2026-11", DECEMBER_3)
    assert shares.freeze_closed(DECEMBER_3) == 0
    close(house.tenant, AT)
    assert "made anew" in shares.why_not_freeze("2026-11", DECEMBER_3)
    for hour in hours.due(AT - timedelta(days=20), DECEMBER_3):
        hours.make(hour, DECEMBER_3)
    assert shares.freeze_closed(DECEMBER_3) == 1
    assert shares.freeze_closed(DECEMBER_3) == 0


def test_what_has_no_rate_or_has_not_ended_is_not_frozen(db, month):
    assert not shares.freeze("2026-10", DECEMBER_3)
    assert not shares.freeze("2026-11", AT)


def test_a_schedule_waits_until_the_month_is_frozen(files, house, tmp_path):
    wanted = ScheduleWanted("costs", "costs", f"file://{tmp_path}/out")
    schedules.save_schedule(wanted, by="ada", reason="finance", at=AT)
    store(tmp_path / "spool", house.close("req_1"))
    close(house.tenant, AT)
    assert schedules.tick(DECEMBER_3) == 0
    assert "2026-11: hours of it are made anew" in schedules.schedules()[0].error
    for hour in hours.due(AT - timedelta(days=20), DECEMBER_3):
        hours.make(hour, DECEMBER_3)
    assert schedules.tick(DECEMBER_3 + timedelta(hours=1)) == 1
    assert (tmp_path / "out" / "weir-costs-2026-11.csv").read_bytes() == files()[0]


def test_more_shares_than_a_page_come_in_pages(files, monkeypatch):
    before = files()[0]
    monkeypatch.setattr(shares, "PAGE_ROWS", 1)
    assert b"".join(costs_csv(NOVEMBER)) == before
    assert len(list(costs_csv(NOVEMBER))) == 5
    shares.freeze("2026-11", DECEMBER_3)
    assert b"".join(costs_csv(NOVEMBER)) == before


def test_what_is_no_month_is_refused(db):
    with pytest.raises(Refused):
        list(costs_csv(CostsWanted("2026-13")))
