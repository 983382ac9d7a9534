"""Usage events are kept by month: made as needed, guarded each, found again by the id."""

from datetime import UTC, date, datetime
from itertools import count

import msgspec
import pytest
from django.db import IntegrityError, connection, transaction

from control.gateway.ids import call_id
from control.metering import partitions as partitions_of_usage
from control.metering.ingest import Shipped, ship
from control.metering.months import UNDATED, following, month_of
from control.models import UsageEvent
from tests.metering.conftest import AT, spool

IDS = [
    (call_id(datetime(2026, 11, 1, tzinfo=UTC).timestamp()), date(2026, 11, 1)),
    (call_id(datetime(2026, 11, 1, tzinfo=UTC).timestamp() - 0.001), date(2026, 10, 1)),
    (call_id(datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()), date(2026, 12, 1)),
    (call_id(datetime(2020, 1, 1, tzinfo=UTC).timestamp()), date(2020, 1, 1)),
    (call_id(datetime(2019, 12, 31, tzinfo=UTC).timestamp()), UNDATED),
    (call_id(datetime(2099, 12, 31, tzinfo=UTC).timestamp()), date(2099, 12, 1)),
    (call_id(datetime(2100, 1, 1, tzinfo=UTC).timestamp()), UNDATED),
    ("req_1", UNDATED),
    ("req_019a3d2f00004abc8000000000000000", UNDATED),  # UUIDv4
    ("req_019a3d2f00007abcc000000000000000", UNDATED),  # another variant
    ("req_019a3d2f00007abc800000000000000", UNDATED),  # too short
    ("req_019A3D2F00007ABC8000000000000000", UNDATED),
    ("req_019a3d2f00007abc8000000000000000\n", UNDATED),
]


@pytest.mark.parametrize(("name", "month"), IDS, ids=count())  # the ids are new each time
@pytest.mark.django_db
def test_the_month_follows_from_the_id_in_both_places(name, month):
    assert month_of(name) == month
    with connection.cursor() as cursor:
        cursor.execute("SELECT weir_usage_month(%s)", [name])
        assert cursor.fetchone() == (month,)


def test_more_months_than_are_remembered_are_still_told():
    for year in range(2021, 2099):
        for month in (1, 2, 12):
            at = datetime(year, month, 15, tzinfo=UTC).timestamp()
            assert month_of(call_id(at)) == date(year, month, 1)
    assert [following(date(2026, 11, 1)), following(date(2026, 12, 1))] == [
        date(2026, 12, 1),
        date(2027, 1, 1),
    ]


def partitions() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relid::regclass::text FROM pg_partition_tree('control_usageevent') WHERE isleaf"
        )
        return {name for (name,) in cursor}


def test_a_month_is_made_when_its_first_call_comes_and_guards_itself(house, tmp_path):
    november = house.close(call_id(AT.timestamp()))
    december = house.close(call_id(datetime(2031, 12, 1, tzinfo=UTC).timestamp()))
    spool(tmp_path, november, december, house.close("req_1"))
    assert ship(tmp_path, set(), AT) == Shipped(events=3)
    made = {f"control_usageevent_{month}" for month in ("202611", "203112", "197001")}
    assert made <= partitions()
    for table in ("control_usageevent", *made):
        for change in (
            f"UPDATE {table} SET route = ''",
            f"DELETE FROM {table}",
            f"TRUNCATE {table}",
        ):
            with (
                pytest.raises(IntegrityError, match="append-only"),
                transaction.atomic(),
                connection.cursor() as cursor,
            ):
                cursor.execute(change)
    assert UsageEvent.objects.count() == 3


def test_a_row_under_another_month_than_its_ids_is_refused(house, tmp_path):
    spool(tmp_path, house.close(call_id(AT.timestamp())))
    ship(tmp_path, set(), AT)
    event = UsageEvent.objects.get()
    event.pk, event.call_id = None, call_id(AT.timestamp())
    for month in (UNDATED, date(2026, 12, 1)):
        with connection.cursor() as cursor:
            cursor.execute("SELECT weir_make_usage_month(%s)", [month])
        event.month = month
        with pytest.raises(IntegrityError, match="ids_of_the_month"), transaction.atomic():
            event.save(force_insert=True)


def test_a_call_sent_again_after_its_month_is_the_same_call(house, tmp_path):
    close = house.close(call_id(AT.timestamp()))
    spool(tmp_path, close)
    assert ship(tmp_path, set(), AT) == Shipped(events=1)
    spool(tmp_path, close, owner="gw-2")
    spool(tmp_path, msgspec.structs.replace(close, output_tokens=1), owner="gw-3")
    assert ship(tmp_path, set(), AT.replace(year=2028)) == Shipped()
    assert UsageEvent.objects.get().output_tokens == 50


def test_coming_months_are_made_over_the_turn_of_a_year(db):
    for _ in range(2):
        partitions_of_usage.make_coming(datetime(2040, 11, 30, 23, tzinfo=UTC))
    made = {f"control_usageevent_{month}" for month in ("204011", "204012", "204101")}
    assert made <= partitions()
    assert "control_usageevent_204102" not in partitions()
