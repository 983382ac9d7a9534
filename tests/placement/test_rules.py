"""Which devices a launch gets, and why not the others."""

from dataclasses import replace

import pytest

from control.placement.fleet import Fleet
from control.placement.memory import GIB
from control.placement.room import free_bytes, free_ranges, take
from control.placement.rules import place
from control.placement.world import Placed, Room, Unplaced
from engines.vllm.choices import card_wanted
from tests.placement.cards import CARD, a_card, a_holder, a_need, a_node, held, linked, ram


def of(need, *nodes):
    return place(need, Fleet(nodes))


def devices_of(placed):
    return [share.device_id for share in placed.shares]


HALF = a_holder(7, 0, 40)
FP8 = card_wanted("fp8_per_channel", "auto", "auto")


@pytest.mark.parametrize(
    ("name", "need", "node", "where", "why"),
    [
        ("cordoned", a_need(), a_node(a_card(1), blocked="is cordoned"), "n1", "is cordoned"),
        ("pinned elsewhere", a_need(pin="n9"), a_node(a_card(1)), "n1", "is not n9"),
        ("pinned to nothing", a_need(pin="n9"), a_node(a_card(1)), "n9", "is no node that has"),
        ("no device yet", a_need(), a_node(), "n1", "has reported no device"),
        ("another pool", a_need(pool="a"), a_node(a_card(1), pool="b"), "n1", "is in pool b"),
        ("preemptible", a_need(), a_node(a_card(1), preemptible=True), "n1", "may be taken away"),
        (
            "a twin",
            a_need(anti_affinity="required"),
            a_node(a_card(1), deployments=frozenset({1})),
            "n1",
            "has a replica of the deployment",
        ),
        ("other devices", a_need(uuids=("GPU-9",)), a_node(a_card(1)), "n1/card 1", "not among"),
        ("being left", a_need(avoid=frozenset({1})), a_node(a_card(1)), "n1/card 1", "avoided for"),
        ("too small", a_need(100), a_node(a_card(1)), "n1/card 1", "120.0 GiB are needed"),
        ("no card left", a_need(share="own"), a_node(held(1, HALF)), "n1/card 1", "held by d#7"),
        (
            "another priority",
            a_need(priority="batch"),
            a_node(held(1, HALF)),
            "n1/card 1",
            "shared by d#7 of another priority",
        ),
        ("booked", a_need(), a_node(held(1, a_holder(7, 0, 60))), "n1/card 1", "60.0 GiB booked"),
        (
            "p01: a foreign process",
            a_need(),
            a_node(a_card(1, foreign_bytes=60 * GIB)),
            "n1/card 1",
            "60.0 GiB used by others",
        ),
        (
            "p01: a foreign process on a card of its own",
            a_need(share="own"),
            a_node(a_card(1, foreign_bytes=20 * GIB)),
            "n1/card 1",
            "68.0 GiB are needed",
        ),
        (
            "the driver has less than the books",
            a_need(),
            a_node(a_card(1, memory_free_bytes=20 * GIB)),
            "n1/card 1",
            "19.5 GiB free",
        ),
        (
            "cannot be read",
            a_need(),
            a_node(a_card(1, blocked="cannot be read: lost")),
            "n1/card 1",
            "cannot be read",
        ),
        (
            "too old for the format",
            a_need(card=FP8),
            a_node(a_card(1, compute_capability="8.0")),
            "n1/card 1",
            "cannot run it: fp8_per_channel wants compute capability 8.9, it has 8.0",
        ),
        ("too few", a_need(devices=2), a_node(a_card(1)), "n1", "has 1 of 2 devices"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_says_why_not(name, need, node, where, why):
    result = of(need, node)
    assert isinstance(result, Unplaced)
    assert why in result.reasons[where]


@pytest.mark.parametrize(
    ("need", "node", "cure"),
    [
        (a_need(share="own"), a_node(held(1, HALF)), "placement.share: shared"),
        (a_need(100), a_node(a_card(1), a_card(2)), "split it over 2 devices"),
        (a_need(100), a_node(a_card(1)), "free memory: the largest gap"),
        (a_need(100, devices=2), a_node(a_card(1), a_card(2), a_card(3)), "free memory"),
        (a_need(card=FP8), a_node(a_card(1, compute_capability="7.5")), "capability 8.9, or"),
        (a_need(uuids=("x",)), a_node(a_card(1)), "name other devices"),
        (a_need(pin="n9"), a_node(a_card(1)), "leave out node"),
        (a_need(pool="a"), a_node(a_card(1)), "put a node into pool a"),
        (a_need(), a_node(a_card(1), blocked="is cordoned: x"), "uncordon n1"),
    ],
)
def test_says_what_to_change(need, node, cure):
    assert cure in str(of(need, node))


def test_says_that_no_node_has_joined():
    assert "no node has joined" in str(of(a_need()))


def test_a_refusal_by_many_nodes_is_told_in_part_and_counted():
    nodes = [a_node(a_card(n), number=n, blocked="is cordoned") for n in range(1, 101)]
    refused = of(a_need(), *nodes)
    assert (len(refused.reasons), refused.more) == (64, 36)
    assert "and 36 more" in str(refused)


def test_p01_ten_launches_of_thirty_on_one_card_of_eighty():
    fleet, results = Fleet([a_node(a_card(1))]), []
    for number in range(10):
        need = a_need(deployment_id=number)
        result = place(need, fleet)
        results.append(type(result))
        if isinstance(result, Placed):
            fleet.reserve(result, need)
        else:
            assert "card 1" in str(result)
    assert results == [Placed] * 2 + [Unplaced] * 8
    [card] = fleet.nodes[0].devices
    assert sum(upper - lower for lower, upper in card.booked) <= CARD


def test_p01_two_cards_with_four_in_use_on_one():
    used = a_card(1, foreign_bytes=4 * GIB)
    assert isinstance(of(a_need(60, devices=2), a_node(used, a_card(2))), Placed)
    assert isinstance(of(a_need(64, devices=2), a_node(used, a_card(2))), Unplaced)


def test_p01_each_of_three_pairs_gets_its_own_cards():
    need, fleet, pairs = a_need(60, devices=2), Fleet([a_node(*map(a_card, range(6)))]), []
    for _ in range(3):
        found = place(need, fleet)
        pairs.append(set(devices_of(found)))
        fleet.reserve(found, need)
    assert pairs == [{0, 1}, {2, 3}, {4, 5}]


def test_an_engine_runs_on_one_mig_slice_and_never_over_several():
    slices = a_node(*(replace(a_card(n), is_slice=True) for n in (1, 2)))
    assert len(of(a_need(60), slices).shares) == 1
    refused = of(a_need(60, devices=2), slices)
    assert "card 1 is a MIG slice" in str(refused)
    assert "leave out tensor_parallel_size" in str(refused)
    assert "split it over" not in str(of(a_need(100), slices))
    whole = of(a_need(60, devices=2), slices, a_node(a_card(3), a_card(4), number=2))
    assert devices_of(whole) == [3, 4]


def test_a_card_of_its_own_is_reserved_whole():
    need, fleet = a_need(30, kv_gib=4, share="own"), Fleet([a_node(a_card(1))])
    found = place(need, fleet)
    assert found.room is Room.OWN
    assert found.shares[0].ranges == ((0, CARD),)
    assert found.kv_bytes == int(CARD * 0.92) - 30 * GIB  # all that is left of the engine's part
    fleet.reserve(found, need)
    assert isinstance(place(replace(need, deployment_id=2, share="shared"), fleet), Unplaced)


def test_a_shared_card_keeps_a_margin_and_a_larger_one_beside_another_model():
    alone = of(a_need(30, kv_gib=10, model_id=1), a_node(a_card(1)))
    [(lower, upper)] = alone.shares[0].ranges
    assert upper - lower == 48 * GIB
    assert alone.kv_bytes == 10 * GIB
    same = a_holder(7, 0, 20, model_id=1)
    other = a_holder(7, 0, 20, model_id=2)
    for holder, booked in ((same, 24), (other, 28)):
        found = of(a_need(20, model_id=1), a_node(held(1, holder)))
        assert sum(upper - lower for lower, upper in found.shares[0].ranges) == booked * GIB


def test_a_hosts_memory_is_shared_without_a_margin():
    found = of(a_need(30, share="own", kv_gib=2), a_node(ram()))
    assert found.room is Room.RAM
    assert found.shares[0].ranges == ((0, 32 * GIB),)


def test_takes_the_tightest_fit_so_that_large_gaps_stay_whole():
    node = a_node(a_card(1), held(2, HALF))
    assert devices_of(of(a_need(), node)) == [2]
    assert devices_of(of(a_need(policy="spread"), node)) == [1]


def test_packs_onto_the_host_that_is_in_use_and_spreads_away_from_it():
    used = a_node(held(1, a_holder(7, 0, 80)), a_card(2), number=1)
    idle = a_node(a_card(3), a_card(4), number=2)
    assert of(a_need(share="own"), idle, used).node == "n1"
    assert of(a_need(share="own", policy="spread"), idle, used).node == "n2"


def test_what_not_every_card_runs_goes_to_one_that_does():
    old, new = a_card(1, compute_capability="8.0"), a_card(2, compute_capability="8.9")
    untold = a_card(3, compute_capability="")
    assert devices_of(of(a_need(card=FP8), a_node(old, new))) == [2]
    assert devices_of(of(a_need(card=FP8), a_node(untold))) == [3]
    assert isinstance(of(a_need(devices=2, card=FP8), a_node(old, new)), Unplaced)
    assert devices_of(of(a_need(card=FP8), a_node(old, ram(9)))) == [9]


def test_prefers_the_node_that_has_the_weights():
    cold, warm = a_node(a_card(1)), a_node(a_card(2), number=2, weights=frozenset({1}))
    assert of(a_need(), cold, warm).node == "n2"


def test_prefers_a_card_to_a_hosts_memory():
    assert devices_of(of(a_need(), a_node(ram(1), a_card(2)))) == [2]


def test_keeps_two_replicas_of_a_deployment_apart_also_from_the_weights():
    warm = frozenset({1})
    taken = a_node(a_card(1), deployments=frozenset({1}), number=2, weights=warm)
    assert of(a_need(), taken, a_node(a_card(2))).node == "n1"
    assert of(a_need(), taken).node == "n2"


def test_a_group_is_linked_where_it_can_be():
    mixed = a_node(a_card(1), *linked(2, 3), *linked(4, 5))
    assert devices_of(of(a_need(60, devices=2), mixed)) == [2, 3]
    bare, joined = a_node(a_card(8), a_card(9)), a_node(*linked(2, 3), number=2)
    assert of(a_need(60, devices=2), bare, joined).node == "n2"
    alone = of(a_need(60, devices=2), bare)
    assert "without NVLink" in alone.reason


def test_pins_hold():
    nodes = [a_node(a_card(n), number=n) for n in (1, 2, 3)]
    assert of(a_need(pin="n2"), *nodes).node == "n2"
    assert devices_of(of(a_need(uuids=("GPU-3",)), *nodes)) == [3]
    assert of(a_need(pool="x"), *nodes, replace(nodes[0], id=4, name="n4", pool="x")).node == "n4"


def test_gives_as_much_cache_as_fits_and_never_less_than_one_call():
    roomy = of(a_need(20, kv_gib=16), a_node(a_card(1)))
    assert roomy.kv_bytes == 16 * GIB
    tight = of(a_need(60, kv_gib=16), a_node(a_card(1)))
    assert 0 < tight.kv_bytes < 16 * GIB


def test_all_devices_of_a_launch_are_of_one_kind():
    assert isinstance(of(a_need(10, devices=2), a_node(a_card(1), ram(2))), Unplaced)


def test_memory_in_gaps_is_memory():
    card = a_card(1, booked=((10 * GIB, 40 * GIB), (50 * GIB, 70 * GIB)))
    assert free_ranges(card) == [(0, 10 * GIB), (40 * GIB, 50 * GIB), (70 * GIB, 80 * GIB)]
    assert take(card, 25 * GIB) == ((0, 10 * GIB), (40 * GIB, 50 * GIB), (70 * GIB, 75 * GIB))
    assert take(card, 31 * GIB) is None


def test_a_little_is_always_kept_free():
    assert free_bytes(a_card(1)) < CARD
