"""A device is there from its first instant to its last; a long absence is none of it."""

from datetime import UTC, datetime, timedelta

from control.metering.cost.presence import AWAY_MAX, SeenHour, by_hour
from control.metering.cost.rules import HOUR

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR_MICROSECONDS = 3_600_000_000


def a_row(hours: int, first: int = 0, last: int = 60, uuid: str = "GPU-1") -> SeenHour:
    hour = NOON + hours * HOUR
    named = ("default", "NVIDIA H200", "gpu", 0, 0)
    return SeenHour(uuid, hour, hour + first * MINUTE, hour + last * MINUTE, *named)


def there(rows: list[SeenHour], hours: int = 24) -> dict[int, int]:
    """Hour from noon → whole minutes of all devices."""
    found = by_hour(rows, NOON, NOON + hours * HOUR)
    return {
        (hour - NOON) // HOUR: sum(one.microseconds for one in devices.values()) // 60_000_000
        for hour, devices in sorted(found.items())
    }


def test_the_first_and_the_last_hour_are_as_long_as_it_was_there():
    assert there([a_row(0, first=15), a_row(1), a_row(2, last=20)]) == {0: 45, 1: 60, 2: 20}


def test_a_short_absence_is_time_that_nobody_saw():
    assert there([a_row(0, 0, 20), a_row(3, 40, 50)]) == {0: 60, 1: 60, 2: 60, 3: 50}


def test_a_long_absence_is_not_paid_for():
    away = AWAY_MAX // HOUR + 1
    assert there([a_row(0, 0, 20), a_row(away, 40, 50)], away + 1) == {0: 20, away: 10}


def test_hours_before_and_after_tell_what_is_asked_for():
    rows = [a_row(-1, 30, 60), a_row(30)]
    assert there(rows, 2) == {0: 60, 1: 60}


def test_each_device_is_there_for_itself():
    assert there([a_row(0, last=10), a_row(0, 20, 50, uuid="GPU-2")]) == {0: 40}


def test_an_hour_that_was_not_seen_bears_the_names_of_the_one_before():
    found = by_hour([a_row(0), a_row(2)], NOON, NOON + 3 * HOUR)
    between = found[NOON + HOUR]["GPU-1"]
    assert (between.seen.hour, between.microseconds) == (NOON, HOUR_MICROSECONDS)
