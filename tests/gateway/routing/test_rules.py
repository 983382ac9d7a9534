"""Which replica serves a call."""

import pytest

from control.gateway.routing import rules
from control.gateway.routing.rules import (
    Candidate,
    Chosen,
    Full,
    NoneReady,
    Option,
    choose,
    slots_now,
)
from control.gateway.waiting.rules import Pace


def option(name: str, weight: int = 100, *replicas: tuple[int, int, int]) -> Option:
    return Option(name, weight, tuple(Candidate(*replica) for replica in replicas))


A_IDLE, A_BUSY, A_FULL, A_OUT = (1, 4, 0), (2, 4, 3), (3, 4, 4), (4, 0, 0)


@pytest.mark.parametrize(
    ("options", "tie", "result"),
    [
        ([option("d", 100, A_BUSY, A_IDLE)], 0, Chosen("d", 1)),
        ([option("d", 100, A_FULL, A_BUSY)], 0, Chosen("d", 2)),
        ([option("d", 100, (1, 8, 2), (2, 2, 1))], 0, Chosen("d", 1)),  # 2/8 before 1/2
        ([option("d", 100, A_FULL)], 0, Full()),
        ([option("d", 100, A_OUT, A_FULL)], 0, Full()),
        ([option("d", 100, A_OUT)], 0, NoneReady("no replica of d answers")),
        ([option("d")], 0, NoneReady("no replica of d is ready")),
        ([], 0, NoneReady("the route has no target")),
        ([option("a", 90, A_IDLE), option("b", 10, A_BUSY)], 89, Chosen("a", 1)),
        ([option("a", 90, A_IDLE), option("b", 10, A_BUSY)], 90, Chosen("b", 2)),
        ([option("a", 90, A_IDLE), option("b", 10, A_BUSY)], 190, Chosen("b", 2)),
        ([option("a", 90), option("b", 10, A_BUSY)], 5, Chosen("b", 2)),
        ([option("a", 90, A_FULL), option("b", 10, A_BUSY)], 5, Chosen("b", 2)),
        ([option("a", 0, A_IDLE), option("b", 10, A_BUSY)], 0, Chosen("b", 2)),
        ([option("a", 0, A_IDLE)], 0, NoneReady("no replica of a answers")),
    ],
)
def test_a_call_goes_by_weight_then_by_load(options, tie, result):
    assert choose(options, tie) == result


def test_equal_replicas_take_turns_by_chance():
    options = [option("d", 100, (1, 4, 1), (2, 4, 1), (3, 8, 2))]
    chosen = {choose(options, tie << 16).replica_id for tie in range(3)}
    assert chosen == {1, 2, 3}


@pytest.mark.parametrize(
    ("slots", "processes", "ejected", "on_trial", "now"),
    [
        (8, 1, False, False, 8),
        (8, 3, False, False, 2),
        (1, 3, False, False, 1),
        (8, 1, True, True, 0),
        (8, 1, False, True, 1),
    ],
)
def test_a_process_takes_its_share_and_proves_a_replica_with_one_call(
    slots, processes, ejected, on_trial, now
):
    assert slots_now(slots, processes, ejected=ejected, on_trial=on_trial) == now


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
