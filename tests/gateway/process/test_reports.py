"""A worker's counts reach its parent whole, however slowly the parent reads."""

import os

from control.gateway.process.reports import Reporter, merged
from control.gateway.recording.metrics import Tally


def a_pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    return reading, writing


def lines_of(reading: int) -> list[bytes]:
    data = b""
    while True:
        try:
            data += os.read(reading, 1 << 20)
        except BlockingIOError:
            return data.splitlines(keepends=True)


def test_only_what_has_changed_is_told_again():
    reading, writing = a_pipe()
    reporter, tally = Reporter(writing), Tally({"a": 1, "b": 1}, {"workers": 1})
    reporter.tell(tally, 0.5, {})
    tally.counters["b"] = 2
    reporter.tell(tally, 0.6, {})
    first, second = lines_of(reading)
    assert b'"a"' not in second
    known = merged(merged(None, first), second)
    assert known.tally.counters == {"a": 1, "b": 2}
    assert known.snapshot_age_seconds == 0.6


def test_a_line_that_the_pipe_takes_in_parts_is_whole_at_last():
    reading, writing = a_pipe()
    tally = Tally({f"{n:04d}" + "x" * 60: float(n) for n in range(4000)}, {})
    reporter, known, parts = Reporter(writing), None, b""
    for _ in range(20):
        reporter.tell(tally, None, {})
        *lines, rest = (parts + b"".join(lines_of(reading))).split(b"\n")
        parts = rest
        for line in lines:
            known = merged(known, line)
    assert known.tally.counters == tally.counters


def test_a_parent_that_is_gone_or_does_not_read_stops_nobody():
    reading, writing = a_pipe()
    reporter, tally = Reporter(writing), Tally({"x" * 1000: 0.0}, {})
    for number in range(200):
        tally.counters["x" * 1000] = number
        reporter.tell(tally, None, {})
    told = b"".join(lines_of(reading)).count(b"\n")
    assert 0 < told < 200  # as many as the pipe holds; the others were not waited for
    os.close(reading)
    reporter.tell(tally, None, {})
