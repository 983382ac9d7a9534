"""How far usage is stored, and calls that nobody ends."""

from datetime import timedelta

from control.metering import watermarks
from control.metering.ingest import Shipped, ship
from control.metering.records import Refused
from control.metering.spool import SpoolWriter
from control.metering.watermarks import BEFORE_OPEN, UNWRITTEN
from control.models import AuditEntry, SpoolPosition, UsageEvent
from tests.metering.conftest import AT, spool

HOUR = timedelta(hours=1)


def test_without_a_spool_all_is_stored_that_can_be_told(db):
    stored = watermarks.stored(AT)
    assert (stored.started, stored.ended, stored.owners) == (AT - BEFORE_OPEN, AT - UNWRITTEN, 0)


def test_the_slowest_spool_tells_and_an_open_call_holds_its_start_back(house, tmp_path):
    began = (AT - timedelta(minutes=20)).timestamp()
    one = spool(tmp_path, house.open("req_1", started_at=began), close=False)
    two = SpoolWriter(tmp_path, "gw-2")
    ship(tmp_path, {"gw-1", "gw-2"}, AT)
    stored = watermarks.stored(AT)
    assert (stored.started, stored.open_calls) == (AT - timedelta(minutes=20), 1)
    assert (stored.ended, stored.owners) == (AT - UNWRITTEN, 2)
    one.append(house.close("req_1", started_at=began))
    ship(tmp_path, {"gw-1"}, AT + HOUR)
    assert watermarks.stored_until(AT + HOUR) == AT + HOUR - BEFORE_OPEN
    SpoolPosition.objects.filter(pk="gw-2").update(at=AT, read_until=AT, stored_until=AT)
    stored = watermarks.stored(AT + HOUR)
    assert (stored.started, stored.ended, stored.slowest) == (AT, AT, "gw-2")
    assert [row.owner for row in watermarks.behind(AT + HOUR)] == ["gw-2"]
    two.close()
    one.close()
    ship(tmp_path, set(), AT + HOUR)
    assert not SpoolPosition.objects.exists()


def test_a_spool_that_is_not_read_to_its_end_tells_nothing(house, tmp_path, monkeypatch):
    monkeypatch.setattr("control.metering.ingest.BATCH_LINES_MAX", 2)
    monkeypatch.setattr("control.metering.ingest.BATCHES_MAX", 1)
    writer = spool(tmp_path, *(house.close(f"req_{n}") for n in range(3)), close=False)
    assert ship(tmp_path, {"gw-1"}, AT).events == 2
    assert not SpoolPosition.objects.exists()
    assert ship(tmp_path, {"gw-1"}, AT).events == 1
    assert watermarks.stored(AT).ended == AT - UNWRITTEN
    writer.close()


def test_a_quiet_spool_is_told_of_every_ten_seconds(house, tmp_path):
    writer = SpoolWriter(tmp_path, "gw-1")
    for seconds, told in ((0, 0), (5, 0), (10, 10), (12, 10)):
        ship(tmp_path, {"gw-1"}, AT + timedelta(seconds=seconds))
        assert SpoolPosition.objects.get().at == AT + timedelta(seconds=told)
    writer.append(house.close("req_1"))
    ship(tmp_path, {"gw-1"}, AT + timedelta(seconds=13))
    assert SpoolPosition.objects.get().at == AT + timedelta(seconds=13)
    writer.append(Refused("acme", None, "rate", 60, 1))
    ship(tmp_path, {"gw-1"}, AT + timedelta(seconds=13))
    row = SpoolPosition.objects.get()
    assert row.offset
    assert row.read_until == AT + timedelta(seconds=13) - UNWRITTEN
    writer.close()


def test_a_call_that_its_gateway_forgot_is_settled_after_an_hour(house, tmp_path):
    writer = spool(tmp_path, house.open("req_1"), house.progress("req_1", 7), close=False)
    assert ship(tmp_path, {"gw-1"}, AT + HOUR) == Shipped()
    late = AT + HOUR + timedelta(seconds=1)
    assert ship(tmp_path, {"gw-1"}, late) == Shipped(events=1, lost=1)
    event = UsageEvent.objects.get()
    assert (event.outcome, event.output_tokens, event.tokens_source) == ("lost", 7, "estimated")
    assert watermarks.stored(late).open_calls == 0
    assert ship(tmp_path, {"gw-1"}, late) == Shipped()
    writer.append(house.close("req_1"))  # it comes after all: the first one stands, and it rings
    assert ship(tmp_path, {"gw-1"}, late) == Shipped()
    assert AuditEntry.objects.get(action="refuse usage").by == "ingest"
    writer.close()
