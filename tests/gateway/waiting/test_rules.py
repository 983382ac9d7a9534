"""Whose turn it is, and what it costs: the rules of CONVENTIONS 6.5 to 6.7, without a clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.gateway import errors
from control.gateway.waiting import rules
from control.gateway.waiting.pace import Caution
from control.gateway.waiting.rules import (
    OWED_MAX,
    RESERVED,
    Service,
    Turns,
)

INTERACTIVE, STANDARD, BATCH = rules.ORDER


@pytest.mark.parametrize(
    ("keys", "routes", "tier", "served"),
    [
        ("standard", INTERACTIVE, None, STANDARD),
        ("interactive", INTERACTIVE, "auto", INTERACTIVE),
        ("batch", INTERACTIVE, "auto", BATCH),
        ("interactive", INTERACTIVE, "scale", INTERACTIVE),
        ("interactive", INTERACTIVE, "default", STANDARD),
        ("interactive", INTERACTIVE, "flex", BATCH),
        ("interactive", INTERACTIVE, "priority", INTERACTIVE),
        ("interactive", INTERACTIVE, "fast", INTERACTIVE),
        ("standard", INTERACTIVE, "priority", STANDARD),
        ("standard", INTERACTIVE, "flex", BATCH),
        ("batch", INTERACTIVE, "fast", BATCH),
        ("batch", INTERACTIVE, "default", BATCH),
        ("interactive", "standard", None, STANDARD),
        ("interactive", "batch", "priority", BATCH),
        ("batch", "standard", None, BATCH),
        ("interactive", "standard", "flex", BATCH),
    ],
)
def test_a_call_has_the_lowest_of_what_key_and_route_may_and_it_asks(keys, routes, tier, served):
    assert rules.served_priority(keys, routes, tier) is served


@pytest.mark.parametrize(
    ("of_route", "default", "whole_max", "seconds"),
    [
        (None, 300, None, 300),
        (None, 300, 55, 55),
        (20, 300, 55, 20),
        (600, 300, None, 600),
        (600, 300, 55, 55),
        (0, 300, None, 0),
        (None, 0, 55, 0),
    ],
)
def test_how_long_a_call_waits_for_a_model_that_loads(of_route, default, whole_max, seconds):
    assert rules.cold_seconds(of_route, default, whole_seconds_max=whole_max) == seconds


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), (b"1", 0.001), (b" 1500 ", 1.5), (b"580000", 580.0), (b"000100", 0.1)],
)
def test_a_deadline_is_whole_milliseconds(header, seconds):
    assert rules.deadline_seconds(header, 580_000) == seconds


@pytest.mark.parametrize(
    "header", [b"", b"0", b"-1", b"1.5", b"1e3", b"600001", b"9" * 5000, b"\xb2", b"1, 2", b"soon"]
)
def test_any_other_deadline_is_refused_and_says_what_is_right(header):
    with pytest.raises(errors.InvalidValue) as refused:
        rules.deadline_seconds(header, 580_000)
    assert refused.value.param == "X-Deadline-Ms"
    assert "from 1 to 580000" in refused.value.message


# --- turns ---


def given_turns(count, waiting):
    turns, given = Turns(), dict.fromkeys(rules.ORDER, 0)
    for _ in range(count):
        first = turns.order(waiting)[0]
        turns.took(first, waiting)
        given[first] += 1
    return given


@pytest.mark.parametrize(
    ("waiting", "given"),
    [
        (rules.ORDER, (800, 150, 50)),
        ((INTERACTIVE, STANDARD), (850, 150, 0)),
        ((INTERACTIVE, BATCH), (950, 0, 50)),
        ((STANDARD, BATCH), (0, 950, 50)),
        ((BATCH,), (0, 0, 1000)),
    ],
)
def test_each_priority_gets_its_share_and_the_most_urgent_the_rest(waiting, given):
    for priority, turns in zip(rules.ORDER, given, strict=True):
        assert given_turns(1000, waiting)[priority] == pytest.approx(turns, abs=3)


@given(st.lists(st.sets(st.sampled_from(rules.ORDER)), max_size=200))
def test_who_waits_all_the_time_gets_its_share_whoever_comes_and_goes(others):
    for constant, share in RESERVED.items():
        turns, given = Turns(), 0
        for round_, coming in enumerate(others, 1):
            waiting = coming | {constant}
            first = turns.order(waiting)[0]
            turns.took(first, waiting)
            given += first is constant
            assert given >= int(round_ * share) - 1


@given(st.lists(st.tuples(st.sampled_from(rules.ORDER), st.sets(st.sampled_from(rules.ORDER)))))
def test_what_is_owed_has_a_limit_and_nobody_is_lost(taken):
    turns = Turns()
    for priority, waiting in taken:
        turns.took(priority, waiting)
        assert all(0 <= owed <= OWED_MAX for owed in turns._owed.values())
        assert sorted(turns.order(waiting)) == sorted(waiting)


def test_having_been_away_is_no_credit():
    turns = Turns()
    for _ in range(50):
        turns.took(INTERACTIVE, (INTERACTIVE,))
    assert turns.order((INTERACTIVE, BATCH)) == [INTERACTIVE, BATCH]
    for _ in range(50):
        turns.took(INTERACTIVE, (INTERACTIVE, BATCH))
    assert turns.order((INTERACTIVE, BATCH)) == [BATCH, INTERACTIVE]
    turns.begins(BATCH)
    assert turns.order((INTERACTIVE, BATCH)) == [INTERACTIVE, BATCH]


# --- service ---


def test_who_begins_to_wait_starts_level_with_the_least_served():
    service = Service()
    service.lift(1, ())
    service.charge(1, 900)
    service.lift(2, (1,))
    assert service.least((1, 2)) == 1  # level: the first that came
    service.charge(2, 1)
    assert service.least((2, 1)) == 1


def test_using_an_idle_engine_leaves_no_debt():
    service = Service()
    for _ in range(10):
        service.serve_at_once(1, 100)
    service.lift(2, ())
    service.charge(2, 1)
    service.lift(1, (2,))
    assert service.least((1, 2)) == 1


def test_a_tenant_of_no_interest_any_more_is_forgotten():
    service = Service()
    for tenant in range(100):
        service.lift(tenant, ())
        service.charge(tenant, 10)
        service.left(tenant)
    service.forget(())
    assert len(service) == 0


@pytest.mark.parametrize(
    ("tokens", "cost"),
    [((100,), 100), ((100, 100), 10), ((100, 50, 10), 75), ((0, 0, 5), 10), ((5, 9), 0.9)],
)
def test_output_counts_double_and_cached_input_a_tenth(tokens, cost):
    assert rules.cost(*tokens) == pytest.approx(cost)


INPUT_MAX, OUTPUT_MAX, SLOTS = 30, 20, 3
CALLS = st.lists(
    st.tuples(st.integers(1, INPUT_MAX), st.integers(0, OUTPUT_MAX), st.integers(0, SLOTS - 1)),
    max_size=100,
)


@given(CALLS)
def test_two_who_always_wait_are_served_alike_within_the_bound(calls):
    """Charged with the input at dispatch and trued up at the end, in any order of ends."""
    service, running = Service(), []
    service.lift(1, ())
    service.lift(2, (1,))
    had = {1: 0.0, 2: 0.0}
    bound = 2 * max(INPUT_MAX, rules.OUTPUT_WEIGHT * OUTPUT_MAX * SLOTS)
    for tokens_in, tokens_out, end in calls:
        tenant = service.least((1, 2))
        service.charge(tenant, rules.cost(tokens_in))
        running.append((tenant, rules.cost(0, 0, tokens_out)))
        had[tenant] += rules.cost(tokens_in)
        if len(running) == SLOTS:
            tenant, cost = running.pop(end)
            service.charge(tenant, cost)
            had[tenant] += cost
        assert abs(had[1] - had[2]) <= bound


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50)), max_size=60))
def test_idling_is_never_credit(before):
    """Whatever was served before, a newcomer is not ahead of the least served who waits."""
    service = Service()
    waiting: list[int] = []
    for tenant, tokens in before:
        if tenant not in waiting:
            service.lift(tenant, waiting)
            waiting.append(tenant)
        service.charge(tenant, tokens)
    least = min((service._had[tenant] for tenant in waiting), default=0.0)
    service.lift(99, waiting)
    assert service._had[99] == least


def test_caution_rises_with_guesses_that_failed_and_ends_with_those_that_held():
    caution = Caution()
    caution.learn(held=True)
    assert caution.factor == 1
    for _ in range(5):
        caution.learn(held=False)
    assert caution.factor == pytest.approx(1.02**5)
    for _ in range(2000):
        caution.learn(held=True)
    assert caution.factor == 1
    for _ in range(100):
        caution.learn(held=False)
    assert caution.factor == 2
