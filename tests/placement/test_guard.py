"""When two on one card hurt each other, and who moves away."""

import pytest

from control.placement.guard import POINTS_MIN, Latency, Neighbour, judge, recovered
from control.placement.wanted import Objective

WELL, SLOW_FIRST, SLOW_LATER = Latency(200, 20), Latency(5000, 20), Latency(200, 400)


def a_neighbour(replica_id, *lately, objective=None, leaving=""):
    return Neighbour(replica_id, f"d#{replica_id}", float(replica_id), objective, lately, leaving)


def minute(point):
    return [point] * POINTS_MIN


@pytest.mark.parametrize(
    ("name", "old", "young", "leaves"),
    [
        ("both are well", minute(WELL), minute(WELL), ""),
        ("the older waits for first tokens", minute(SLOW_FIRST), minute(WELL), "TTFT of 5000 ms"),
        ("the older waits for tokens", minute(SLOW_LATER), minute(WELL), "TPOT of 400 ms"),
        ("the younger misses it itself", minute(WELL), minute(SLOW_LATER), "TPOT of 400 ms"),
        ("one slow prompt", [SLOW_FIRST, *minute(WELL)], minute(WELL), ""),
        ("too little was seen", [SLOW_FIRST] * 2, minute(WELL), ""),
        ("slow alone", minute(SLOW_LATER), [Latency()] * POINTS_MIN, ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_who_moves_away(name, old, young, leaves):
    move = judge("n1/card", [a_neighbour(1, *old), a_neighbour(2, *young)])
    assert bool(move) is bool(leaves)
    if move:
        assert move.replica_id == 2
        assert leaves in move.reason


def test_an_objective_of_its_own_counts():
    strict = a_neighbour(1, *minute(WELL), objective=Objective(tpot_ms=10))
    move = judge("n1/card", [strict, a_neighbour(2, *minute(WELL))])
    assert move.reason == (
        "moves away from n1/card: d#1 there has a TPOT of 20 ms where 10 ms are wanted"
    )


def test_who_is_alone_stays():
    assert judge("n1/card", [a_neighbour(1, *minute(SLOW_LATER))]) is None


@pytest.mark.parametrize(
    ("name", "old", "young", "may_stay"),
    [
        ("both fare well again", minute(WELL), minute(WELL), True),
        ("one slow prompt of many", [SLOW_FIRST, *minute(WELL)], minute(WELL), True),
        ("still half of them", [*minute(SLOW_FIRST), *minute(WELL)], minute(WELL), False),
        ("the younger misses it", minute(WELL), minute(SLOW_LATER), False),
        ("nobody calls the older", [Latency()] * POINTS_MIN, minute(WELL), False),
        ("too little was seen", [WELL] * 2, minute(WELL), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_who_was_to_move_may_stay_once_all_fare_well_for_a_while(name, old, young, may_stay):
    marked = a_neighbour(2, *young, leaving="moves away")
    assert bool(recovered([a_neighbour(1, *old), marked])) is may_stay
    assert recovered([a_neighbour(1, *old), a_neighbour(2, *young)]) == []


def test_a_card_that_somebody_leaves_already_moves_nobody_else():
    cards = [a_neighbour(1, *minute(SLOW_LATER)), a_neighbour(2, *minute(WELL), leaving="moves")]
    assert judge("n1/card", cards) is None
