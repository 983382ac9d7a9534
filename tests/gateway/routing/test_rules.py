"""Which replica serves a call."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.gateway.routing import rules
from control.gateway.routing.candidates import Candidate, EngineLoad, Figures, Pick
from control.gateway.routing.rules import Chosen, Full, NoneReady, Option, choose
from control.gateway.waiting.rules import Pace


def option(name: str, weight: int = 100, *replicas: tuple[int, int, int]) -> Option:
    return Option(name, weight, [Candidate(*replica) for replica in replicas])


def chosen(options: list[Option], **pick) -> tuple[str, int] | Full | NoneReady:
    match choose(options, Pick(**({"tie": 0} | pick)), now=0.0):
        case Chosen(replica=replica, deployment=deployment):
            return deployment, replica.id
        case Full():
            return "full"
        case NoneReady(reason=reason):
            return reason


A_IDLE, A_BUSY, A_FULL, A_OUT = (1, 4, 0), (2, 4, 3), (3, 4, 4), (4, 0, 0)


@pytest.mark.parametrize(
    ("options", "tie", "result"),
    [
        ([option("d", 100, A_BUSY, A_IDLE)], 0, ("d", 1)),
        ([option("d", 100, A_FULL, A_BUSY)], 0, ("d", 2)),
        ([option("d", 100, (1, 8, 2), (2, 2, 1))], 0, ("d", 1)),  # 2/8 before 1/2
        ([option("d", 100, A_FULL)], 0, "full"),
        ([option("d", 100, A_OUT, A_FULL)], 0, "full"),
        ([option("d", 100, A_OUT)], 0, "no replica of d answers"),
        ([option("d")], 0, "no replica of d is ready"),
        ([], 0, "the route has no target"),
        ([option("a", 90, A_IDLE), option("b", 10, A_BUSY)], 89, ("a", 1)),
        ([option("a", 90, A_IDLE), option("b", 10, A_BUSY)], 90, ("b", 2)),
        ([option("a", 90, A_IDLE), option("b", 10, A_BUSY)], 190, ("b", 2)),
        ([option("a", 90), option("b", 10, A_BUSY)], 5, ("b", 2)),
        ([option("a", 90, A_FULL), option("b", 10, A_BUSY)], 5, ("b", 2)),
        ([option("a", 0, A_IDLE), option("b", 10, A_BUSY)], 0, ("b", 2)),
        ([option("a", 0, A_IDLE)], 0, "no replica of a answers"),
    ],
)
def test_a_call_goes_by_weight_then_by_load(options, tie, result):
    assert chosen(options, tie=tie) == result


def test_equal_replicas_take_turns_by_chance():
    options = [option("d", 100, (1, 4, 1), (2, 4, 1), (3, 8, 2))]
    assert {chosen(options, tie=tie << 16)[1] for tie in range(3)} == {1, 2, 3}


def test_what_was_tried_is_neither_tried_again_nor_waited_for():
    options = [option("d", 100, A_IDLE, A_FULL)]
    assert chosen(options, tried=frozenset({1})) == "full"
    assert chosen(options, tried=frozenset({1, 3})) == "no replica of d answers"


def test_batch_leaves_its_floor_to_the_urgent():
    busy = Candidate(1, 10, in_flight=9)
    busy.batch_in_flight = 9
    options = [Option("d", 100, [busy])]
    assert chosen(options, batch=True) == "full"
    assert chosen(options) == ("d", 1)


def test_a_retry_after_a_full_engine_goes_only_where_nothing_queues():
    queueing, calm = Candidate(1, 4), Candidate(2, 4, in_flight=3)
    queueing.engine = EngineLoad(2, 1, 0.1, at=0.0, own_in_flight=0)
    options = [Option("d", 100, [queueing, calm])]
    assert chosen(options, calm=True) == ("d", 2)
    calm.refused_until = 1.0
    assert chosen(options, calm=True) == "full"
    calm.refused_until, calm.in_flight = 0.0, 4
    assert chosen(options, calm=True) == "full"


def test_a_choice_keeps_the_figures_of_all_candidates_of_that_moment():
    replicas = [Candidate(1, 4, 1), Candidate(2, 4, 2)]
    choice = choose([Option("d", 100, replicas)], Pick(0), now=0.0)
    choice.replica.in_flight += 1
    assert choice.figures == (Figures(1, 1, 4, None), Figures(2, 2, 4, None))
    assert choice.why == "least load"


@settings(deadline=None, max_examples=40, derandomize=True)  # chance itself is what is tested
@given(st.lists(st.integers(1, 100), min_size=2, max_size=5), st.integers(0, 2**32))
def test_calls_are_shared_by_any_weights(weights, seed):
    calls = 2000
    options = [option(str(n), weight, (n, 4, 0)) for n, weight in enumerate(weights)]
    ties = (rules.policies.mixed(seed + call) for call in range(calls))
    counts = Counter(chosen(options, tie=tie)[0] for tie in ties)
    for n, weight in enumerate(weights):
        share = weight / sum(weights)
        sigma = (calls * share * (1 - share)) ** 0.5
        # Three sigma each would fail by chance alone, so many are looked at.
        assert abs(counts[str(n)] - calls * share) <= 5 * sigma + 1


def test_a_weight_of_nine_to_one_is_kept_within_three_sigma():
    options = [option("a", 90, A_IDLE), option("b", 10, A_BUSY)]
    calls, share = 10_000, 0.1
    counts = Counter(chosen(options, tie=rules.policies.mixed(n))[0] for n in range(calls))
    assert abs(counts["b"] - calls * share) <= 3 * (calls * share * (1 - share)) ** 0.5


def test_a_replica_that_may_be_back_in_a_moment_is_worth_waiting_for():
    probed = Candidate(1, 0)
    probed.coming = True
    assert chosen([Option("d", 100, [probed])]) == "full"
    assert chosen([Option("d", 100, [probed])], tried=frozenset({1})) != "full"


@pytest.mark.parametrize(
    ("sizes", "pace"),
    [
        ([], None),
        ([(0, Pace(2.0))], None),
        ([(4, Pace(2.0, 1.0))], Pace(0.5, 0.25)),
        ([(4, Pace(2.0, 1.0)), (1, Pace(0.5))], Pace(0.25, 0.125)),  # the more uneven of two
        ([(4, Pace(2.0)), (0, None)], Pace(0.5)),
        ([(4, Pace(2.0)), (1, None)], None),  # not known as long as one deployment's is not
        ([(4, Pace(0.0))], None),
    ],
)
def test_calls_end_as_slots_and_the_time_that_they_hold_one_say(sizes, pace):
    assert rules.pace(sizes) == pace
