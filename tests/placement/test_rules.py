"""Which devices a launch gets, and why not the others."""

from dataclasses import replace

import pytest

from control.placement.memory import GIB, Sizes
from control.placement.rules import (
    DeviceFacts,
    Need,
    NodeFacts,
    Placed,
    Unplaced,
    free_bytes,
    free_ranges,
    place,
    reserve,
    take,
)

CARD = 80 * GIB


def a_card(number, **fields):
    return DeviceFacts(number, f"GPU-{number}", f"card {number}", "gpu", CARD, **fields)


def a_node(*devices, number=1, **fields):
    return NodeFacts(number, f"n{number}", devices=devices, **fields)


def a_need(gib=30, devices=1, kv_gib=0, **fields):
    size = Sizes(gib * GIB, 0, kv_gib * GIB, GIB)
    return Need(1, 1, devices, {"gpu": size, "cpu": size}, **fields)


@pytest.mark.parametrize(
    ("name", "need", "node", "where", "why"),
    [
        ("cordoned", a_need(), a_node(a_card(1), blocked="is cordoned"), "n1", "is cordoned"),
        ("pinned elsewhere", a_need(pin="n9"), a_node(a_card(1)), "n1", "is not n9"),
        ("no device yet", a_need(), a_node(), "n1", "has reported no device"),
        ("too small", a_need(100), a_node(a_card(1)), "n1/card 1", "100.0 GiB are needed"),
        (
            "booked",
            a_need(),
            a_node(a_card(1, booked=((0, 60 * GIB),))),
            "n1/card 1",
            "60.0 GiB booked",
        ),
        (
            "p01: a foreign process",
            a_need(),
            a_node(a_card(1, foreign_bytes=60 * GIB)),
            "n1/card 1",
            "60.0 GiB used by others",
        ),
        (
            "cannot be read",
            a_need(),
            a_node(a_card(1, blocked="cannot be read: lost")),
            "n1/card 1",
            "cannot be read",
        ),
        ("too few", a_need(devices=2), a_node(a_card(1)), "n1", "has 1 of 2 devices"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_says_why_not(name, need, node, where, why):
    result = place(need, [node])
    assert isinstance(result, Unplaced)
    assert why in result.reasons[where]


def test_says_that_no_node_has_joined():
    assert "no node has joined" in str(place(a_need(), []))


def test_p01_ten_launches_of_thirty_on_one_card_of_eighty():
    nodes = [a_node(a_card(1))]
    results = []
    for _ in range(10):
        result = place(a_need(), nodes)
        results.append(type(result))
        if isinstance(result, Placed):
            nodes = reserve(nodes, result, a_need())
    assert results == [Placed] * 2 + [Unplaced] * 8


def test_p01_each_of_three_pairs_gets_its_own_cards():
    need, nodes, pairs = a_need(60, devices=2), [a_node(*map(a_card, range(6)))], []
    for _ in range(3):
        placed = place(need, nodes)
        pairs.append({share.device_id for share in placed.shares})
        nodes = reserve(nodes, placed, need)
    assert pairs == [{0, 1}, {2, 3}, {4, 5}]


def test_takes_the_tightest_fit_so_that_large_gaps_stay_whole():
    half_full = a_card(2, booked=((0, 40 * GIB),))
    placed = place(a_need(), [a_node(a_card(1), half_full)])
    assert [share.device_id for share in placed.shares] == [2]


def test_prefers_the_node_that_has_the_weights():
    cold, warm = a_node(a_card(1)), a_node(a_card(2), number=2, weights=frozenset({1}))
    assert place(a_need(), [cold, warm]).node == "n2"


def test_keeps_two_replicas_of_a_deployment_apart():
    taken = a_node(a_card(1), deployments=frozenset({1}), number=2)
    assert place(a_need(), [taken, a_node(a_card(2))]).node == "n1"


def test_gives_as_much_cache_as_fits_and_never_less_than_one_call():
    roomy = place(a_need(20, kv_gib=16), [a_node(a_card(1))])
    assert roomy.kv_bytes == 16 * GIB
    tight = place(a_need(70, kv_gib=16), [a_node(a_card(1))])
    assert 0 < tight.kv_bytes < 16 * GIB


def test_all_devices_of_a_launch_are_of_one_kind():
    memory = replace(a_card(2), kind="cpu")
    assert isinstance(place(a_need(10, devices=2), [a_node(a_card(1), memory)]), Unplaced)


def test_memory_in_gaps_is_memory():
    card = a_card(1, booked=((10 * GIB, 40 * GIB), (50 * GIB, 70 * GIB)))
    assert free_ranges(card) == [(0, 10 * GIB), (40 * GIB, 50 * GIB), (70 * GIB, 80 * GIB)]
    assert take(card, 25 * GIB) == ((0, 10 * GIB), (40 * GIB, 50 * GIB), (70 * GIB, 75 * GIB))
    assert take(card, 31 * GIB) is None


def test_a_little_is_always_kept_free():
    assert free_bytes(a_card(1)) < CARD
