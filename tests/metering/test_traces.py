"""Traces are kept beside usage, once each, for a while."""

from datetime import timedelta

import msgspec

from control.metering import traces
from control.metering.contents import content_hash
from control.metering.ingest import ship
from control.metering.records import Close, Refused, line_of, record_of
from control.models import AuditEntry, CallTrace, RefusalCount, UsageEvent
from control.telemetry.traces import Trace, Try
from tests.metering.conftest import AT, spool

TRACE = Trace("retried", {"read": 10, "settle": 900}, [{"decision": "Chosen"}], link="ab-cd")


def a_refusal(call_id: str) -> Refused:
    at = AT.timestamp()
    trace = Trace("refused", {"read": 5, "settle": 7}, error="model_loading")
    return Refused("acme", 9, "model_loading", 60, 0, call_id, "chat", 503, at, at + 0.1, trace)


def test_a_trace_is_stored_with_its_event_and_once(house, tmp_path):
    close = house.close("req_1", attempts=2, tries=(Try(3, "upstream_error", 40, 7, 2),))
    close = msgspec.structs.replace(close, trace=TRACE, flags=("moderation_failed_open",))
    writer = spool(tmp_path, house.open("req_1"), close, house.close("req_2"), close=False)
    ship(tmp_path, {"gw-1"}, AT)
    (tmp_path / "gw-1" / "shipped.json").unlink()  # as if a crash had lost it
    ship(tmp_path, {"gw-1"}, AT)
    row = CallTrace.objects.get()
    assert (row.call_id, row.kept, row.outcome, row.link) == (
        *("req_1", "retried", "complete"),
        "ab-cd",
    )
    assert row.stages == {"read": 10, "settle": 900}
    assert row.decisions == [{"decision": "Chosen"}]
    assert row.tries[0]["input_tokens"] == 7
    assert row.flags == ["moderation_failed_open"]
    assert UsageEvent.objects.count() == 2
    assert not AuditEntry.objects.exists()
    writer.close()


def test_a_refusals_trace_counts_nothing(house, tmp_path):
    counted = Refused("acme", 9, "model_loading", 60, 3)
    spool(tmp_path, a_refusal("req_9"), counted)
    ship(tmp_path, set(), AT)
    row = CallTrace.objects.get()
    assert (row.outcome, row.status, row.error) == ("refused", 503, "model_loading")
    assert [count.count for count in RefusalCount.objects.all()] == [3]


def test_a_trace_that_no_table_takes_holds_up_no_usage(house, tmp_path):
    bad = msgspec.structs.replace(TRACE, decisions=[{"why": "\0"}])
    spool(tmp_path, house.open("req_1"), house.close("req_1", trace=bad))
    ship(tmp_path, set(), AT)
    assert UsageEvent.objects.count() == 1
    assert not CallTrace.objects.exists()


def test_old_traces_go_and_of_too_many_the_oldest(house, tmp_path, monkeypatch):
    spool(tmp_path, *(house.close(f"req_{n}", trace=TRACE) for n in range(5)))
    ship(tmp_path, set(), AT)
    CallTrace.objects.filter(call_id="req_3").update(started_at=AT - timedelta(days=8))
    monkeypatch.setattr(traces, "ROWS_MAX", 2)
    assert traces.prune(AT) == 3
    assert set(CallTrace.objects.values_list("call_id", flat=True)) == {"req_2", "req_4"}
    assert traces.prune(AT) == 0


def test_what_an_older_release_reads_and_hashes_is_the_same(house):
    """It knows none of the members that change no amount."""
    plain = house.close("req_1")
    rich = msgspec.structs.replace(plain, trace=TRACE, tries=(Try(3, "x", 4),), flags=("f",))
    assert content_hash(rich) == content_hash(plain)
    assert record_of(line_of(rich)) == rich
    lines = msgspec.json.decode(line_of(plain))
    assert set(lines) == {"type", *Close.__struct_fields__} - {
        *("cached_source", "flags", "tries", "trace", "choices", "cut", "untold")
    }
