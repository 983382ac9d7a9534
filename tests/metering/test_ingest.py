"""Each admitted call ends in exactly one event, whatever is killed, sent twice or broken."""

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from control.metering import ledger
from control.metering.backlog import read
from control.metering.contents import content_hash
from control.metering.ingest import Shipped, ship
from control.metering.records import Refused, line_of
from control.metering.segments import segments
from control.metering.spool import SpoolWriter
from control.models import (
    AuditEntry,
    Price,
    RefusalCount,
    Transfer,
    UsageEvent,
)
from tests.metering.books import drop_prices
from tests.metering.conftest import AT, a_house, spool


def open_calls(directory: Path) -> list[str]:
    """Calls of the one owner that have begun and not ended."""
    return list(read(directory / "gw-1", True, 1000).after.calls)


def test_a_closed_call_is_an_event_priced_and_posted(house, tmp_path):
    writer = spool(tmp_path, house.open("req_1"), house.close("req_1"), close=False)
    assert ship(tmp_path, {"gw-1"}, AT) == Shipped(events=1)
    event = UsageEvent.objects.get()
    # 80 x 1 + 20 x 0.25 + 50 x 4 per million
    assert (event.amount_pico, event.currency, event.price) == (285_000_000, "USD", house.price)
    assert (event.call_id, event.kind, event.outcome) == ("req_1", "final", "complete")
    assert event.started_at == AT
    assert ledger.balances() == {
        ("receivable", "USD"): 285_000_000,
        ("revenue", "USD"): -285_000_000,
    }
    house.key.refresh_from_db()
    assert house.key.last_used_at == event.ended_at
    writer.close()


@pytest.mark.parametrize(("after_seconds", "moves"), [(59, False), (60, True)])
def test_a_keys_last_use_is_written_once_a_minute(house, tmp_path, after_seconds, moves):
    first = house.close("req_1")
    second = house.close("req_2", ended_at=first.ended_at + after_seconds)
    for close in (first, second):
        spool(tmp_path / close.call_id, house.open(close.call_id), close)
        ship(tmp_path / close.call_id, set(), AT)
    house.key.refresh_from_db()
    last = second if moves else first
    assert house.key.last_used_at.timestamp() == pytest.approx(last.ended_at, abs=1e-3)


def test_each_call_is_stored_when_it_closes_and_once(house, tmp_path):
    writer = spool(tmp_path, house.open("req_1"), house.open("req_2"), close=False)
    assert ship(tmp_path, {"gw-1"}, AT) == Shipped()
    writer.append(house.close("req_1"))
    assert ship(tmp_path, {"gw-1"}, AT) == Shipped(events=1)
    assert ship(tmp_path, {"gw-1"}, AT) == Shipped()
    assert open_calls(tmp_path) == ["req_2"]
    writer.append(house.close("req_2"))
    assert open_calls(tmp_path) == []
    assert ship(tmp_path, {"gw-1"}, AT) == Shipped(events=1)
    writer.close()


def test_s09_a_call_whose_gateway_died_is_lost_with_the_last_tokens_heard(house, tmp_path):
    spool(
        tmp_path,
        house.open("req_1"),
        house.progress("req_1", 5),
        house.progress("req_1", 12),
        house.open("req_2"),
        house.open("req_3"),
        house.close("req_3"),
    )
    assert ship(tmp_path, {"gw-1"}, AT) == Shipped(events=1)
    assert ship(tmp_path, set(), AT) == Shipped(events=2, lost=2)
    one, two = UsageEvent.objects.filter(outcome="lost").order_by("call_id")
    assert (one.input_tokens, one.output_tokens, one.tokens_source) == (100, 12, "estimated")
    assert one.amount_pico == 85_000_000 + 12 * 4_000_000
    assert (two.input_tokens, two.output_tokens, two.amount_pico) == (130, 0, 0)
    assert not (tmp_path / "gw-1").exists()
    assert ship(tmp_path, set(), AT) == Shipped()


def test_an_owner_that_still_holds_its_folder_is_not_dead(house, tmp_path):
    writer = spool(tmp_path, house.open("req_1"), close=False)
    assert ship(tmp_path, set(), AT) == Shipped()
    writer.append(house.close("req_1"))
    assert ship(tmp_path, set(), AT) == Shipped(events=1)
    writer.close()


def test_m03_the_same_id_of_two_tenants_is_two_events(house, tmp_path):
    other = a_house("other")
    spool(tmp_path, house.close("req_1"), other.close("req_1"), house.close("req_1"))
    assert ship(tmp_path, set(), AT) == Shipped(events=2)
    assert Transfer.objects.count() == 2
    assert not AuditEntry.objects.exists()


def test_the_same_id_with_other_content_rings_an_alarm_and_changes_nothing(house, tmp_path):
    spool(tmp_path, house.close("req_1"), house.close("req_1", output_tokens=51))
    assert ship(tmp_path, set(), AT) == Shipped(events=1)
    assert UsageEvent.objects.get().output_tokens == 50
    entry = AuditEntry.objects.get()
    assert (entry.by, entry.action) == ("ingest", "refuse usage")
    assert "req_1" in entry.subject


def test_what_cannot_be_read_or_stored_is_set_aside_and_blocks_nothing(house, tmp_path):
    folder = tmp_path / "gw-1"
    folder.mkdir()
    unknown_key = house.close("req_2", key_id=10**9)
    (folder / "00000001.jsonl").write_bytes(
        line_of(house.close("req_1"))
        + b"{broken\n"
        + line_of(unknown_key)
        + line_of(house.close("req_3", ended_at=1e300))
        + line_of(house.close("req_4\0"))
        + b'{"type":"refused","tenant":"t","key_id":null,"code":"c","minute":1,"count":-1}\n'
        + line_of(house.close("req_5"))
        + line_of(house.close("req_6"))[:-9]
    )
    assert ship(tmp_path, set(), AT) == Shipped(events=2)
    assert sorted(UsageEvent.objects.values_list("call_id", flat=True)) == ["req_1", "req_5"]
    assert sorted(path.name for path in folder.iterdir()) == ["00000001.jsonl.bad", "calls.bad"]
    assert (folder / "calls.bad").read_bytes().startswith(line_of(unknown_key))
    assert (folder / "00000001.jsonl.bad").read_bytes().count(b"\n") == 3
    assert AuditEntry.objects.filter(action="set aside usage").count() == 4
    assert ship(tmp_path, set(), AT) == Shipped()


def test_segments_go_when_stored_and_the_newest_stays(house, tmp_path):
    writer = SpoolWriter(tmp_path, "gw-1", segment_bytes_max=100)
    for number in range(5):
        writer.append(house.close(f"req_{number}"))
    assert ship(tmp_path, {"gw-1"}, AT) == Shipped(events=5)
    assert [path.name for path in segments(tmp_path / "gw-1")] == ["00000005.jsonl"]
    writer.close()


def test_an_open_call_outlives_its_segment(house, tmp_path):
    writer = SpoolWriter(tmp_path, "gw-1", segment_bytes_max=100)
    writer.append(house.open("req_1"))
    for number in range(2, 5):
        writer.append(house.close(f"req_{number}"))
    ship(tmp_path, {"gw-1"}, AT)
    assert open_calls(tmp_path) == ["req_1"]
    writer.close()
    assert ship(tmp_path, set(), AT) == Shipped(events=1, lost=1)


def test_the_price_is_the_one_when_the_call_started(house, tmp_path):
    Price.objects.create(
        model=house.version.model,
        currency="USD",
        input_pico=0,
        cached_input_pico=0,
        output_pico=1,
        valid_from=AT,
    )
    before = (AT - timedelta(seconds=1)).timestamp()
    spool(tmp_path, house.close("req_1", started_at=before), house.close("req_2"))
    ship(tmp_path, set(), AT)
    amounts = dict(UsageEvent.objects.values_list("call_id", "amount_pico"))
    assert amounts == {"req_1": 285_000_000, "req_2": 50}


def test_r03_a_model_without_a_price_still_has_its_event(house, tmp_path):
    drop_prices()
    spool(tmp_path, house.close("req_1"), house.close("req_2", version_id=None))
    assert ship(tmp_path, set(), AT) == Shipped(events=2)
    assert set(UsageEvent.objects.values_list("amount_pico", "currency", "price")) == {
        (0, "", None)
    }
    assert not Transfer.objects.exists()


def test_m05_impossible_counts_are_clamped(house, tmp_path, caplog):
    spool(tmp_path, house.close("req_1", cached_input_tokens=500))
    ship(tmp_path, set(), AT)
    event = UsageEvent.objects.get()
    assert (event.cached_input_tokens, event.amount_pico) == (100, 225_000_000)
    assert "impossible token counts" in caplog.text


def test_refusals_are_counted_per_minute_over_all_owners(house, tmp_path):
    one = Refused("acme", house.key.pk, "rate_limit_exceeded", 60, 2)
    spool(tmp_path, one, one, Refused("", None, "invalid_api_key", 60, 1))
    spool(tmp_path, one, owner="gw-2")
    assert ship(tmp_path, set(), AT) == Shipped(refused=7)
    counts = RefusalCount.objects.values_list("tenant_name", "code", "count")
    assert sorted(counts) == [("", "invalid_api_key", 1), ("acme", "rate_limit_exceeded", 6)]


def test_two_shippers_do_not_work_at_once(house, tmp_path):
    spool(tmp_path, house.close("req_1"))
    inner = []

    def at_step(name: str) -> None:
        if name == "read":
            inner.append(ship(tmp_path, set(), AT))

    assert ship(tmp_path, set(), AT, at_step) == Shipped(events=1)
    assert inner == [Shipped(left=1)]


def test_a_lost_call_found_twice_is_the_same_call(house):
    lost = house.close("req_1", outcome="lost")
    later = msgspec.structs.replace(lost, ended_at=lost.ended_at + 60)
    assert content_hash(lost) == content_hash(later)
    assert content_hash(lost) != content_hash(msgspec.structs.replace(lost, output_tokens=1))
