"""What a tenant asks of its usage: days of its own calendar, and what is wrong said by name."""

from datetime import UTC, date, datetime

import pytest

from control import checks
from control.metering.own import rules

AT = datetime(2026, 11, 30, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "timezone", "first", "after"),
    [
        ({}, "UTC", date(2026, 11, 1), date(2026, 12, 1)),
        ({}, "Asia/Shanghai", date(2026, 12, 1), date(2027, 1, 1)),  # it is December there
        ({"month": "2026-02"}, "UTC", date(2026, 2, 1), date(2026, 3, 1)),
        ({"month": "2026-12"}, "UTC", date(2026, 12, 1), date(2027, 1, 1)),
        ({"from": "2026-11-05"}, "UTC", date(2026, 11, 5), date(2026, 12, 1)),
        ({"to": "2026-11-05"}, "UTC", date(2026, 11, 1), date(2026, 11, 5)),
        (
            {"from": "2026-11-05", "to": "2026-11-06"},
            "UTC",
            date(2026, 11, 5),
            date(2026, 11, 6),
        ),
    ],
)
def test_days_are_of_the_tenants_calendar(given, timezone, first, after):
    asked = rules.asked(given, AT, timezone)
    assert (asked.first, asked.after) == (first, after)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"month": "2026-13"}, "month"),
        ({"month": "Nov"}, "month"),
        ({"month": "2026-11", "from": "2026-11-01"}, "month"),
        ({"from": "yesterday"}, "from"),
        ({"to": "2026-11-31"}, "to"),
        ({"from": "2026-11-05", "to": "2026-11-05"}, "to"),
        ({"from": "2025-01-01", "to": "2026-11-05"}, "from"),
        ({"group_by": "tenant"}, "group_by"),
        ({"group_by": ""}, "group_by"),
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"limit": "ten"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"limit": "²"}, "limit"),
        ({"model": "m" * 97}, "model"),
        ({"key": "a\0"}, "key"),
        ({"tenant": "other"}, "tenant"),
        ({"from": "0001-01-01", "to": "0001-01-02"}, "to"),
        ({"month": "9999-12"}, "month"),
    ],
)
def test_what_is_wrong_is_said_by_name(given, field):
    with pytest.raises(checks.Refused) as refused:
        rules.asked(given, AT, "UTC")
    assert [problem.field for problem in refused.value.problems] == [field]


@pytest.mark.parametrize(
    ("timezone", "since", "whole"),
    [
        ("Asia/Shanghai", datetime(2026, 10, 31, 16, tzinfo=UTC), True),
        ("America/New_York", datetime(2026, 11, 1, 4, tzinfo=UTC), True),  # the clock goes back
        ("Asia/Kolkata", datetime(2026, 10, 31, 18, 30, tzinfo=UTC), False),
    ],
)
def test_a_month_begins_at_midnight_there(timezone, since, whole):
    asked = rules.asked({"month": "2026-11"}, AT, timezone)
    assert asked.since == since
    assert asked.is_in_whole_hours is whole
