"""W3C Trace Context, row by row, and what of it crosses the border."""

import pytest

from control.gateway.ids import call_id
from control.gateway.recording.trace_context import (
    Parent,
    engine_span,
    own_span,
    parent_of,
    state_of,
    traceparent,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("given", "sampled"),
    [
        (GOOD, True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"00-{TRACE}-{SPAN}-02", False),
        (f"00-{TRACE}-{SPAN}-ff", True),  # bits nobody knows are no reason to refuse
        (f"01-{TRACE}-{SPAN}-01", True),  # a later version begins as this one does
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
        (f"01-{TRACE}-{SPAN}-01-", True),
    ],
)
def test_a_traceparent_that_is_believed(given, sampled):
    assert parent_of(given.encode()) == Parent(TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "00",
        GOOD[:-1],
        GOOD + "0",
        GOOD + "-what-the-future-will-be-like",  # version 00 ends there
        GOOD + ".",
        f"cc-{TRACE}-{SPAN}-01.what-the-future-will-not-be-like",
        f"cc-{TRACE}-{SPAN}-0100",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN.upper()}-01",
        f"00-{TRACE}-{SPAN}-0A",
        f"0G-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}0-{SPAN}-01",
        f"00-{TRACE}-{SPAN[:-1]}-01",
        f"00_{TRACE}_{SPAN}_01",
        f"{GOOD}, {GOOD}",  # two headers
        f"01-{TRACE}-{SPAN}-01-x, {GOOD}",
        f" {GOOD}",
        f"00-{TRACE[:-1]}é-{SPAN}-01",
    ],
)
def test_a_traceparent_that_is_ignored(given):
    assert parent_of(given and given.encode("latin-1")) is None


MANY = ",".join(f"k{n}=v" for n in range(32))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, ""),
        ("", ""),
        ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        ("a=1, b=2 ,\tc=3", "a=1,b=2,c=3"),
        ("a=1,,b=2,", "a=1,b=2"),  # empty members are allowed
        ("1tenant@vendor=x", "1tenant@vendor=x"),
        ("a=with blank inside", "a=with blank inside"),
        (MANY, MANY),
        (MANY + ",k32=v", ""),  # one too many
        ("a=1,a=2", ""),  # a key once only
        ("A=1", ""),
        ("1a=1", ""),
        ("a=b=c", ""),
        ("a", ""),
        ("=1", ""),
        ("a=", ""),
        ("a=\x07", ""),
        ("a=é", ""),
        ("a" * 257 + "=1", ""),
        ("a=" + "v" * 257, ""),
        ("a=" + "v" * 256, "a=" + "v" * 256),
        # no room for all: whole members, those above 128 characters first, then from the end
        (f"a={'v' * 200},b={'w' * 100},c={'x' * 250},d=1", f"a={'v' * 200},b={'w' * 100},d=1"),
        (
            ",".join(f"{k}={'v' * 120}" for k in "abcde"),
            ",".join(f"{k}={'v' * 120}" for k in "abcd"),
        ),
    ],
)
def test_a_tracestate(given, kept):
    assert state_of(given and given.encode("latin-1")) == kept


def test_ids_are_made_of_the_calls_and_differ():
    id_ = call_id(1_790_000_000.5)
    spans = [own_span(id_), *(engine_span(id_, attempt) for attempt in (1, 2, 3))]
    assert len(set(spans)) == 4
    for span in spans:
        for sampled in (True, False):
            sent = traceparent(id_, span, sampled=sampled)
            assert parent_of(sent.encode()) == Parent(id_[4:], span, sampled)
            assert sent[-2:] == ("03" if sampled else "02")  # the id is random, and says so
