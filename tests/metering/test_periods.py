"""A budget's period is a day or a month of its tenant's calendar."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from control.metering.periods import period_of


def local(zone: str, *parts: int) -> datetime:
    return datetime(*parts, tzinfo=ZoneInfo(zone)).astimezone(UTC)


@pytest.mark.parametrize(
    ("period", "zone", "at", "begins", "ends"),
    [
        ("month", "UTC", (2026, 11, 29, 12), (2026, 11, 1), (2026, 12, 1)),
        ("month", "Asia/Tokyo", (2026, 3, 31, 23, 50), (2026, 3, 1), (2026, 4, 1)),
        ("month", "Asia/Tokyo", (2026, 4, 1, 0, 10), (2026, 4, 1), (2026, 5, 1)),
        ("month", "America/Lima", (2026, 12, 31, 23, 59), (2026, 12, 1), (2027, 1, 1)),
        ("day", "Asia/Shanghai", (2026, 11, 29, 0, 0), (2026, 11, 29), (2026, 11, 30)),
        ("day", "Europe/Berlin", (2026, 10, 25, 12), (2026, 10, 25), (2026, 10, 26)),
    ],
)
def test_a_period_is_of_the_tenants_calendar(period, zone, at, begins, ends):
    found = period_of(local(zone, *at), period, zone)
    assert found == (local(zone, *begins), local(zone, *ends))
    assert found.begins_at.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", (2026, 10, 25), 25),
        ("Europe/Berlin", (2026, 3, 29), 23),
        ("Atlantic/Azores", (2026, 10, 25), 25),  # 01:00 is 00:00 again
        ("Asia/Beirut", (2026, 3, 29), 23),  # has no midnight
        ("America/Havana", (2026, 11, 1), 25),
    ],
)
def test_m08_every_local_day_is_one_window_also_when_clocks_change(zone, day, hours):
    first = local(zone, *day) - timedelta(days=2)
    instants = [first + timedelta(minutes=10 * n) for n in range(6 * 24 * 5)]
    windows = list(dict.fromkeys(period_of(at, "day", zone) for at in instants))
    for at in instants:
        assert period_of(at, "day", zone).begins_at <= at < period_of(at, "day", zone).ends_at
    assert [one.ends_at for one in windows[:-1]] == [one.begins_at for one in windows[1:]]
    days = [w.begins_at.astimezone(ZoneInfo(zone)).date() for w in windows]
    assert len(set(days)) == len(days)
    [changed] = [w for w in windows if w.begins_at == local(zone, *day)]
    assert changed.ends_at - changed.begins_at == timedelta(hours=hours)


def test_m08_the_month_after_the_31st_of_january_is_february_whole():
    january = period_of(datetime(2026, 1, 31, 12, tzinfo=UTC), "month", "UTC")
    february = period_of(january.ends_at, "month", "UTC")
    assert february == (datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
    assert february.ends_at - february.begins_at == timedelta(days=28)
