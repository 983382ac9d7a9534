"""Engines' counters are held against attempts: what is cut or crosses an edge is a range."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.metering.drift.rules import (
    CALLS_MAX,
    Reading,
    Sums,
    Tokens,
    Work,
    fastest,
    judge,
    part,
    total_of,
)

HOUR = 3600.0


def work(begin=100.0, end=110.0, *, first=None, tokens=(1000, 100), **changes) -> Work:
    values = {"source": "engine", "outcome": "complete", "purpose": "call", "number": 1}
    values |= {"call_id": "c", "started_at": begin, "first_at": first, "ended_at": end}
    return Work(**values | {"told": Tokens(*tokens)} | changes)


def verdict(counted: tuple[int, int], *others: Work, whole: tuple[int, int] = (0, 0)):
    return judge(Reading(0.0), Reading(HOUR, *counted), Sums(Tokens(*whole), 1), others)


@pytest.mark.parametrize(
    ("counted", "unexplained", "is_incident"),
    [
        ((100_000, 50_000), (0, 0), False),
        ((100_001, 50_000), (1, 0), False),  # nothing is wrong, and nothing is hidden
        ((101_000, 50_000), (1000, 0), False),
        ((101_001, 50_000), (1001, 0), True),
        ((100_000, 48_999), (0, -1001), True),  # more is written down than was made
        ((98_000, 52_000), (-2000, 2000), True),
    ],
)
def test_what_came_to_its_end_is_explained_to_the_token(counted, unexplained, is_incident):
    found = verdict(counted, whole=(100_000, 50_000))
    assert (found.unexplained, found.is_incident) == (unexplained, is_incident)


def test_a_thousand_tokens_are_nothing_where_millions_are_counted():
    assert not verdict((1_004_000, 0), whole=(1_000_000, 0)).is_incident  # below 0.5 %
    found = verdict((1_006_000, 0), whole=(1_000_000, 0))
    assert found.is_incident
    assert found.reason == "+6,000 input tokens of 1,006,000"


STREAMED = {"first": 102.0}
CUT = {"outcome": "client_closed", **STREAMED}


@pytest.mark.parametrize(
    ("one", "least", "most"),
    [
        (work(), (1000, 100), (1000, 100)),
        (work(outcome="rejected", tokens=(0, 0)), (0, 0), (0, 0)),
        # It told of tokens, and what was on its way when it was left is unseen.
        (work(**CUT), (1000, 100), (1000, 120)),
        # Its end was heard late by a gateway that died.
        (work(**CUT | {"outcome": "lost"}), (1000, 100), (1000, 160)),
        # Whoever does not read does not know what is made.
        (work(**CUT | {"outcome": "slow_client"}), (1000, 100), (1000, 280)),
        # Nobody knows whether the prompt was read before it was left.
        (work(source="estimated", outcome="deadline", tokens=(50, 0)), (0, 0), (164, 220)),
        # A stop word was found by the gateway: the engine is told, and may have gone on.
        (work(cut=True, **STREAMED), (1000, 100), (1000, 120)),
    ],
)
def test_of_an_attempt_that_was_cut_the_unseen_is_a_range(one, least, most):
    assert total_of(one, pace=20.0) == (least, most)


def test_the_pace_is_what_the_engine_says_of_its_tokens():
    assert fastest(Reading(0.0), Reading(9.0, token_seconds_sum=50.0, token_gaps=1000)) == 80.0
    assert fastest(Reading(0.0), Reading(9.0)) == 250.0


@pytest.mark.parametrize(
    ("begin", "end", "least", "most"),
    [
        (0.0, 300.0, (1000, 100), (1000, 100)),
        (0.0, 50.0, (0, 0), (0, 0)),
        (300.0, 400.0, (0, 0), (0, 0)),
        (0.0, 157.0, (1000, 23), (1000, 77)),  # at half of its tokens, two seconds more or less
        (157.0, 300.0, (0, 23), (0, 77)),  # and the rest of them
        (0.0, 101.0, (0, 0), (1000, 26)),  # its first token comes about then
        (0.0, 211.0, (1000, 72), (1000, 100)),  # and its end
    ],
)
def test_what_crosses_an_edge_belongs_to_both_sides(begin, end, least, most):
    one = work(100.0, 212.0, first=102.0)
    assert part(one, begin, end, pace=1.0) == (least, most)


def test_of_an_answer_that_came_at_once_an_edge_sees_all_or_nothing():
    assert part(work(), 0.0, 105.0, 10.0) == ((0, 0), (1000, 100))


def test_no_hour_has_a_call_that_two_hours_have():
    """Whatever an edge does, the parts of both sides can be the whole."""
    one = work(100.0, 212.0, first=102.0)
    left, right = part(one, 0.0, 150.0, 1.0), part(one, 150.0, 300.0, 1.0)
    for name in (0, 1):
        assert left.least[name] + right.least[name] <= one.told[name]
        assert left.most[name] + right.most[name] >= one.told[name]


calls = st.builds(
    lambda begin, wait, run, tokens, outcome: work(
        begin, begin + wait + run, first=begin + wait, tokens=(tokens, tokens), outcome=outcome
    ),
    *(st.floats(0, 7000), st.floats(0, 60), st.floats(0.1, 500), st.integers(0, 5000)),
    st.sampled_from(["complete", "client_closed", "lost"]),
)


@given(st.lists(calls, max_size=20), st.floats(0, 1))
def test_an_engine_that_streams_evenly_never_drifts(works, share):
    """Also if it made a part of what nobody saw of those that were cut."""

    def counted(at: float) -> Reading:
        tokens_in = tokens_out = 0
        for one in works:
            if at >= one.first_at:
                tokens_in += one.told.input if one.told.input else 0
            done = min(max((at - one.first_at) / (one.ended_at - one.first_at), 0.0), 1.0)
            tokens_out += int(one.told.output * done)
            if at >= one.ended_at and not one.is_whole:
                tokens_out += int(share * 250.0)
        return Reading(at, tokens_in, tokens_out)

    edges = [Reading(-10.0), counted(HOUR), counted(2 * HOUR), counted(9000.0)]
    for begin, end in zip(edges, edges[1:], strict=False):
        found = judge(begin, end, Sums(), works)
        assert found.unexplained == (0, 0)
        assert not found.is_incident


def test_an_incident_lists_the_calls_that_may_be_the_most_wrong():
    cut = [work(**CUT, call_id=f"c{n}", tokens=(1, n)) for n in range(CALLS_MAX)]
    worst = work(call_id="worst", source="estimated", outcome="upstream_error", tokens=(9000, 0))
    found = verdict((50_000, 0), *cut, worst)
    assert found.is_incident
    assert len(found.calls) == CALLS_MAX
    assert found.calls[0].call_id == "worst"
    assert (found.attempts, found.cut_attempts) == (CALLS_MAX + 2, CALLS_MAX + 1)
