"""What gives way to what, and what is kept for a launch that waits."""

from dataclasses import replace

import pytest

from control.placement.displacing import Displaces, NoneGivesWay, Waits, make_way, seek
from control.placement.fleet import Fleet
from control.placement.memory import GIB
from control.placement.rules import place
from control.placement.world import Placed, Unplaced
from engines.vllm.choices import card_wanted
from tests.placement.cards import a_card, a_holder, a_need, a_node, held

URGENT = {"priority": "interactive", "share": "own", "name": "chat"}


def batch(replica_id, start=0, end=80, **fields):
    return a_holder(replica_id, start, end, priority="batch", **fields)


def interactive(gib=30, **fields):
    return a_need(gib, **(URGENT | fields))


def ids(way):
    return [holder.replica_id for holder in way.replicas]


@pytest.mark.parametrize(
    ("name", "need", "holders", "way"),
    [
        ("batch gives way", interactive(), [batch(5)], Displaces),
        ("standard does not displace", a_need(share="own"), [batch(5)], NoneGivesWay),
        ("standard does not give way", interactive(), [a_holder(5, 0, 80)], NoneGivesWay),
        ("who ends already is waited for", interactive(), [batch(5, ends=True)], Waits),
        (
            "anybody who ends is waited for",
            interactive(),
            [a_holder(5, 0, 80, ends=True)],
            Waits,
        ),
        (
            "a sleeper gives way to any",
            a_need(share="own"),
            [a_holder(5, 0, 1, asleep=True)],
            Displaces,
        ),
        ("and to interactive", interactive(), [a_holder(5, 0, 1, asleep=True)], Displaces),
        (
            "one that ends will do: no sleeper is stopped",
            a_need(share="own"),
            [a_holder(5, 1, 80, ends=True)],
            NoneGivesWay,
        ),
        (
            "a sleeper beside one who stays",
            a_need(share="own"),
            [a_holder(5, 0, 1, asleep=True), a_holder(6, 1, 80)],
            NoneGivesWay,
        ),
        ("too large for the card anyway", interactive(100), [batch(5)], NoneGivesWay),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_gives_way(name, need, holders, way):
    assert isinstance(make_way(need, Fleet([a_node(held(1, *holders))])), way)


RAM = {"ram_bytes": 100 * GIB, "ram_booked_bytes": 70 * GIB, "ram_available_bytes": 20 * GIB}


def on_ram(gib, **fields):
    need = interactive(**fields)
    size = replace(need.sizes["gpu"], host_bytes=gib * GIB)
    return replace(need, sizes={"gpu": size})


@pytest.mark.parametrize(
    ("name", "ram_gib", "holders", "goes"),
    [
        ("its RAM is free with its card", 40, [batch(5, host_bytes=40 * GIB)], [5]),
        ("it holds too little of it", 60, [batch(5, host_bytes=40 * GIB)], None),
        ("who ends gives RAM back too", 40, [batch(5, host_bytes=40 * GIB, ends=True)], Waits),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_gives_way_gives_the_ram_of_its_host_too(name, ram_gib, holders, goes):
    need, node = on_ram(ram_gib), replace(a_node(held(1, *holders)), **RAM)
    assert isinstance(place(need, Fleet([node])), Unplaced)
    way = make_way(need, Fleet([node]))
    if goes is None:
        assert isinstance(way, NoneGivesWay)
    elif goes is Waits:
        assert (type(way), way.until) == (Waits, (holders[0].name,))
    else:
        assert ids(way) == goes


def test_for_ram_alone_one_on_another_card_gives_way_and_no_more_than_will_do():
    """The second card is empty; the RAM of its host is not."""
    holders = [batch(5, 0, 40, host_bytes=40 * GIB), batch(6, 40, 80, host_bytes=30 * GIB)]
    node = replace(a_node(held(1, *holders), a_card(2)), **RAM)
    assert ids(make_way(on_ram(30), Fleet([node]))) == [6]
    assert ids(make_way(on_ram(60), Fleet([node]))) == [6, 5]
    ends = [batch(5, 0, 40, host_bytes=40 * GIB, ends=True), holders[1]]
    node = replace(a_node(held(1, *ends), a_card(2)), **RAM)
    assert make_way(on_ram(30), Fleet([node])).until == (ends[0].name,)


def test_none_gives_way_where_there_is_room():
    fleet = Fleet([a_node(held(1, batch(5)), a_card(2))])
    assert isinstance(seek(interactive(), fleet), Placed)


def test_as_few_as_will_do_and_the_youngest_first():
    fleet = Fleet([a_node(held(1, batch(5, 0, 30), batch(6, 30, 60), batch(7, 60, 78)))])
    shared = interactive(share="shared", priority="interactive")
    assert ids(make_way(interactive(20), fleet)) == [7, 6, 5]
    # On a shared card those of another priority go as well, whatever room there is.
    assert set(ids(make_way(shared, fleet))) == {5, 6, 7}


def test_the_choice_holds_while_those_that_give_way_drain():
    pair = {"devices": 2}
    began = a_node(held(1, batch(5, ends=True)), held(2, batch(6)), number=2)
    other = a_node(held(3, batch(7)), held(4, batch(8)), number=1)
    way = make_way(interactive(**pair), Fleet([other, began]))
    assert (way.node, ids(way)) == ("n2", [6])
    over = a_node(held(1, batch(5, ends=True)), held(2, batch(6, ends=True)), number=2)
    way = make_way(interactive(**pair), Fleet([other, over]))
    assert (way.node, way.until) == ("n2", ("d#5", "d#6"))


def test_what_is_being_left_is_kept_for_what_waits():
    fleet = Fleet([a_node(held(1, batch(5, 0, 40, ends=True)), held(2, batch(6)))])
    assert isinstance(seek(interactive(), fleet), Waits)
    refused = place(a_need(10, priority="batch", share="shared"), fleet)
    assert isinstance(refused, Unplaced)
    assert "is kept for chat, which is more urgent" in refused.reasons["n1/card 1"]


def test_a_sleeper_gives_way_before_one_that_serves():
    fleet = Fleet([a_node(held(1, batch(9, 1, 60), a_holder(5, 0, 1, asleep=True)))])
    assert ids(make_way(interactive(), fleet)) == [5, 9]


def test_while_one_ends_where_it_would_fit_no_sleeper_is_stopped_for_it():
    sleeps, ends = a_holder(5, 0, 1, asleep=True), a_holder(6, 0, 80, ends=True)
    fleet = Fleet([a_node(held(1, sleeps), number=1), a_node(held(2, ends), number=2)])
    assert isinstance(make_way(a_need(share="own"), fleet), NoneGivesWay)


def test_says_who_would_give_way():
    way = make_way(interactive(), Fleet([a_node(held(1, batch(5)))]))
    assert str(way) == "on n1, where d#5 of priority batch would give way"


@pytest.mark.parametrize(("capability", "way"), [("8.0", NoneGivesWay), ("8.9", Displaces)])
def test_nobody_gives_way_on_a_card_that_cannot_run_what_comes(capability, way):
    card = held(1, batch(5), compute_capability=capability)
    need = interactive(card=card_wanted("fp8_per_channel", "auto", "auto"))
    assert isinstance(make_way(need, Fleet([a_node(card)])), way)
