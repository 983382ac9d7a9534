"""Calls that failed are in the log: by their ids, never by what was asked, and not too many."""

import json
import logging

import pytest

from control.gateway.recording.failures import Failures
from control.telemetry.logs import JsonFormatter
from tests.gateway.place import chat
from tests.gateway.upstream import DONE, Script, answered, chunk, error, event

SAID = "a secret recipe"


def lines(caplog) -> list[dict]:
    records = [r for r in caplog.records if r.name == "control.gateway.recording.failures"]
    return [json.loads(JsonFormatter().format(record)) for record in records]


async def test_a_broken_answer_is_logged_with_its_call(place, engines, caplog):
    await engines(Script(chunk(role=True) + chunk("a"), end="rst"))
    answer = await place.post(chat(SAID, stream=True))
    [line] = lines(caplog)
    assert line["call_id"] == answer.headers["x-request-id"]
    seen = [line[name] for name in ("outcome", "code", "status", "route", "replica", "attempts")]
    assert seen == ["truncated", "upstream_error", 200, "chat", 1, 1]
    assert SAID not in caplog.text


@pytest.mark.parametrize("in_stream", [False, True])
async def test_a_call_that_its_engine_refuses_is_rejected_and_free(
    place, engines, caplog, in_stream
):
    said = {"error": {"message": "no such thing", "code": 400}}
    await engines(Script(event(said) + DONE) if in_stream else error(400, "no such thing"))
    answer = await place.post(chat(SAID, stream=in_stream))
    assert (answer.status, answer.error["code"]) == (400, "invalid_value")
    [closed] = place.closes()
    assert (closed.outcome, closed.status) == ("rejected", 400)
    assert (closed.input_tokens, closed.output_tokens) == (0, 0)
    assert closed.trace.kept == "refused"
    [line] = lines(caplog)
    assert (line["outcome"], line["code"]) == ("rejected", "invalid_value")
    assert 'outcome="rejected"' in str(place.shared.tally.counters)
    assert not place.shared.replicas.ejected()


async def test_good_calls_are_not_logged(place, engines, caplog):
    await engines(answered())
    await place.post(chat())
    assert not lines(caplog)


async def test_a_second_has_so_many_lines_and_the_count_of_the_others(place, engines, caplog):
    await engines(error(400))
    await place.post(chat())
    [close] = place.closes()
    caplog.clear()
    failures = Failures(10, lambda: 5.0)
    for _ in range(13):
        failures.ended(close, "invalid_value")
    failures.sweep(5.9)
    assert len(lines(caplog)) == 10
    failures.sweep(6.0)
    assert lines(caplog)[-1]["message"] == "3 more calls failed within a second"
    failures.sweep(7.0)
    assert len(lines(caplog)) == 11


def test_members_of_a_line_are_told_and_cleaned():
    record = logging.LogRecord("x", logging.WARNING, "", 0, "said", (), None)
    record.fields = {"replica": 5, "level": "forged", "code": "Bearer abc"}
    line = json.loads(JsonFormatter().format(record))
    assert (line["replica"], line["level"], line["code"]) == (5, "WARNING", "Bearer ***")
