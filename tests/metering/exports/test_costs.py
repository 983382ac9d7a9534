"""Cost split to tenants and lines: ratios sum to one, rows to what the devices cost."""

import csv
import io
import json
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.metering.exports.costs import CostsWanted, costs_csv, costs_parquet, ratios
from control.metering.rules import PICO
from control.models import CostHour, Tenant

NOVEMBER = CostsWanted("2026-11")


@given(st.lists(st.integers(0, 10**20), min_size=1, max_size=30))
def test_ratios_sum_to_exactly_one(amounts):
    assert sum(ratios(amounts)) == 1


def test_the_rounding_of_ratios_is_the_largest_ones():
    assert ratios([1, 1, 1]) == [Decimal("0.333334"), Decimal("0.333333"), Decimal("0.333333")]
    assert ratios([0, 0]) == [1, 0]
    assert ratios([]) == []


@pytest.fixture
def month(db) -> Decimal:
    """Two tenants, idle time, two pools."""
    tenants = [Tenant.objects.create(name=name) for name in ("acme", "other")]
    whole = 0
    for number, (pool, tenant, line) in enumerate(
        [("a100", 0, "busy"), ("a100", 1, "busy"), ("a100", None, "idle"), ("h100", 0, "busy")], 1
    ):
        for hour in range(3):
            pico = number * PICO // 7
            whole += pico
            CostHour.objects.create(
                hour=datetime(2026, 11, 3, hour, tzinfo=UTC),
                pool=pool,
                line=line,
                tenant=None if tenant is None else tenants[tenant],
                device_microseconds=number * 600_000_000,
                currency="CNY",
                hardware_pico=pico,
            )
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
    assert names == {"acme", "other", "unallocated idle"}


def test_a_month_without_devices_has_only_its_columns(db):
    assert b"".join(costs_csv(NOVEMBER)).count(b"\n") == 1
    assert pq.read_table(io.BytesIO(b"".join(costs_parquet(NOVEMBER)))).num_rows == 0
