"""Files on a clock: when they are due, whole or not at all, in a folder or in a bucket."""

from datetime import UTC, datetime, timedelta

import pytest

from control.checks import Refused
from control.metering.exports import destinations, schedules
from control.metering.exports.schedule_rules import Due, due
from control.metering.exports.wanted import ScheduleWanted
from control.models import ExportSchedule
from tests.metering.conftest import AT
from tests.metering.invoices.months import DECEMBER_3, close, store

DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)
WHO = {"by": "ada", "reason": "for finance"}


@pytest.mark.parametrize(
    ("every", "begins", "done", "at", "expected"),
    [
        ("month", AT, None, AT, None),
        ("month", AT, None, DECEMBER, Due("2026-11", DECEMBER)),
        ("month", AT, DECEMBER, DECEMBER_3, None),
        (
            "month",
            AT,
            DECEMBER,
            DECEMBER + timedelta(days=31),
            Due("2026-12", DECEMBER + timedelta(days=31)),
        ),
        ("day", AT, None, AT, Due("2026-11", AT.replace(hour=0))),
        ("day", AT, AT.replace(hour=0), AT, None),
        ("day", AT, AT.replace(hour=0), DECEMBER, Due("2026-11", DECEMBER)),
    ],
)
def test_when_a_file_is_due(every, begins, done, at, expected):
    assert due(every, begins, done, None, "", at) == expected


def test_what_failed_is_tried_again_later():
    late = DECEMBER_3 + timedelta(minutes=29)
    assert due("month", AT, None, DECEMBER_3, "no", late) is None
    assert due("month", AT, None, DECEMBER_3, "no", late + timedelta(minutes=1))


def save(destination: str, **changes) -> None:
    values = {"name": "finance", "what": "focus", "destination": destination} | changes
    schedules.save_schedule(ScheduleWanted(**values), at=AT, **WHO)


def test_a_month_is_written_once_it_is_closed(house, tmp_path):
    folder = tmp_path / "out"
    save(f"file://{folder}")
    store(tmp_path / "spool", house.close("req_1"))
    assert schedules.tick(DECEMBER_3) == 0
    close(house.tenant, AT)
    assert schedules.tick(DECEMBER_3) == 1
    assert sorted(path.name for path in folder.iterdir()) == [
        "weir-focus-1.4-2026-11.csv",
        "weir-focus-1.4-schema.json",
    ]
    assert schedules.tick(DECEMBER_3) == 0
    [told] = schedules.schedules()
    assert told.wrote == str(folder / "weir-focus-1.4-2026-11.csv")


def test_half_a_file_is_never_seen(tmp_path):
    def breaks():
        yield b"half"
        raise OSError("the disk is full")

    destinations.put(f"file://{tmp_path}", "a.csv", [b"whole"])
    with pytest.raises(OSError, match="full"):
        destinations.put(f"file://{tmp_path}", "a.csv", breaks())
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert (tmp_path / "a.csv").read_bytes() == b"whole"


def test_a_folder_that_cannot_be_written_is_told(house, tmp_path):
    (tmp_path / "file").write_text("")
    save(f"file://{tmp_path}/file/out", every="day", what="usage")
    assert schedules.tick(AT) == 0
    [told] = schedules.schedules()
    assert "file" in told.error
    assert told.done_until is None


def test_a_bucket_gets_the_file_signed(house, tmp_path, bucket):
    save("s3://money/weir", every="day", what="usage", format="csv", tenant="acme")
    store(tmp_path, house.close("req_1"))
    assert schedules.tick(AT) == 1
    [(path, body)] = bucket.files.items()
    assert path == "/money/weir/weir-usage-2026-11-acme.csv"
    assert body.startswith(b"call_id,")


def test_a_bucket_that_refuses_is_told(house, bucket, monkeypatch):
    save("s3://money/weir", every="day", what="usage")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    assert schedules.tick(AT) == 0
    assert "refused money/weir/weir-usage-2026-11.csv" in schedules.schedules()[0].error


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"destination": "ftp://x"}, "destination: "),
        ({"destination": "file://relative/x"}, "destination: "),
        ({"destination": "file:///a/../b"}, "destination: "),
        ({"destination": "s3:///x"}, "destination: names no bucket"),
        ({"what": "secrets"}, "what: "),
        ({"format": "xlsx"}, "format: "),
        ({"every": "hour"}, "every: "),
        ({"tenant": "nobody"}, "tenant: "),
        ({"version": "1.0"}, "version: "),
        ({"name": "a b"}, "name: "),
    ],
)
def test_what_cannot_be_scheduled_is_refused(db, changes, says):
    with pytest.raises(Refused, match=says):
        save(**({"destination": "file:///tmp/x"} | changes))


def test_a_schedule_is_removed(db):
    save("file:///tmp/x")
    schedules.remove_schedule("finance", at=AT, **WHO)
    assert not ExportSchedule.objects.exists()
    with pytest.raises(Refused, match="there is no schedule"):
        schedules.remove_schedule("finance", at=AT, **WHO)
