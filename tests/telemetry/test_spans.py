"""A kept call in OpenTelemetry's words, and on its way to a collector."""

import dataclasses
import socket

import pytest

from control.telemetry.otlp import Exporter
from control.telemetry.spans import CLIENT, INTERNAL, SERVER, KeptCall, spans_of
from control.telemetry.traces import Trace, Try
from tests.telemetry.collector import Collector

ID = "req_019000000000700080000000000000ff"
STAGES = {
    "read": 1000,
    "admit": 1500,
    "wait": 2000,
    "route": 2100,
    "connect": 2200,
    "engine_queue": 5000,
    "first_token": 9000,
    "last_token": 90_000,
    "settle": 91_000,
}
LINK = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
CALL = KeptCall(
    call_id=ID,
    route="chat",
    status=200,
    started_at=1_790_000_000.001,
    ended_at=1_790_000_000.091,
    trace=Trace("sampled", STAGES, engine="vllm", model="gemma", link=LINK, link_state="a=1"),
    endpoint="chat.completions",
    stream=True,
    priority="standard",
    outcome="complete",
    replica_id=7,
    attempts=1,
    finish_reason="stop",
    input_tokens=100,
    cached_input_tokens=64,
    output_tokens=20,
    reasoning_tokens=5,
)


def test_a_call_is_a_span_of_ours_with_its_stages_and_one_of_the_engine():
    spans = spans_of(CALL)
    whole, engine = spans[0], spans[-1]
    assert [(span.name, span.kind) for span in spans] == [
        ("chat.completions", SERVER),
        ("read", INTERNAL),
        ("admit", INTERNAL),
        ("wait", INTERNAL),
        ("route", INTERNAL),
        ("settle", INTERNAL),
        ("chat chat", CLIENT),
    ]
    assert {span.trace_id for span in spans} == {ID[4:]}
    assert {span.parent_id for span in spans[1:]} == {whole.span_id}
    assert len({span.span_id for span in spans}) == len(spans)
    assert engine.span_id == ID[20:]  # as the engine was told
    assert whole.start_ns == 1_790_000_000_000_000_000
    assert whole.end_ns - whole.start_ns == 91_000_000
    assert engine.end_ns - engine.start_ns == (90_000 - 2100) * 1000
    assert (whole.link, whole.link_state) == (LINK, "a=1")


def test_the_words_are_those_of_the_conventions():
    assert spans_of(CALL)[-1].attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "chat",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "gemma",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.0069,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 64,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "weir.replica.id": 7,
    }


def test_a_try_that_was_given_up_is_a_span_with_its_error():
    call = dataclasses.replace(
        CALL, attempts=2, tries=(Try(3, "upstream_error", 2050, 100, 4),), stream=False
    )
    first, second = [span for span in spans_of(call) if span.kind == CLIENT]
    assert (first.span_id, second.span_id) == (ID[20:], f"{0x80000000000000FF + 1:016x}")
    assert first.attributes["error.type"] == first.error == "upstream_error"
    assert first.attributes["gen_ai.usage.output_tokens"] == 4
    assert "error.type" not in second.attributes
    assert "gen_ai.response.time_to_first_chunk" not in second.attributes


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"outcome": "truncated", "status": 200}, "truncated"),
        ({"outcome": "client_closed", "status": 499}, "client_closed"),
        ({"outcome": "complete", "status": 200}, ""),
    ],
)
def test_a_failure_has_a_type(changes, error):
    whole, *_, engine = spans_of(dataclasses.replace(CALL, **changes))
    assert whole.error == engine.error == error


def test_a_refused_call_has_no_engine():
    trace = Trace("refused", {"read": 10, "settle": 50}, error="server_is_overloaded")
    call = KeptCall(ID, "chat", 503, 1.0, 1.1, trace)
    assert [span.kind for span in spans_of(call)] == [SERVER, INTERNAL, INTERNAL]
    assert spans_of(call)[0].attributes["error.type"] == "server_is_overloaded"


def test_a_collector_gets_the_spans_with_their_ids_and_link():
    with Collector() as collector:
        exporter = Exporter(collector.url)
        exporter.put([CALL])
        exporter.close()
    assert collector.paths == ["/v1/traces"]
    assert len(collector.spans) == 7
    whole = collector.spans[0]
    assert whole.trace_id.hex() == ID[4:]
    assert whole.span_id.hex() == ID[4:20]
    [link] = whole.links
    assert f"{link.trace_id.hex()}-{link.span_id.hex()}" == LINK
    assert [(one.key, one.value.string_value) for one in link.attributes] == [("tracestate", "a=1")]
    told = {one.key: one.value for one in collector.spans[-1].attributes}
    assert told["gen_ai.usage.input_tokens"].int_value == 100
    assert told["gen_ai.response.finish_reasons"].array_value.values[0].string_value == "stop"
    assert exporter.dropped == 0


def test_a_collector_that_refuses_costs_a_count_and_no_exception():
    with Collector(status=400) as collector:
        exporter = Exporter(collector.url)
        exporter.put([CALL, CALL])
        exporter.close()
    assert exporter.dropped == 2


def test_the_queue_is_bounded(monkeypatch):
    monkeypatch.setattr("control.telemetry.otlp.CALLS_WAITING_MAX", 10)
    with socket.socket() as silent:  # takes connections, answers nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        exporter = Exporter(f"http://127.0.0.1:{silent.getsockname()[1]}")
        exporter.put([CALL] * 500)
        assert exporter.dropped >= 500 - 10 - 200
