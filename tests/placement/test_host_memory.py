"""Weights that a card does not hold lie in the RAM of its host, which is booked too."""

from dataclasses import replace

import pytest
from django.db import IntegrityError

from control.models import Deployment, Node, Replica
from control.placement import actions, books, filters, rules
from control.placement.fleet import Fleet
from control.placement.memory import GIB, Sizes
from control.placement.world import DeviceFacts, Need, NodeFacts, Placed
from control.reconcile import loop
from tests.fleet.rows import a_version
from tests.placement.world import AT, VLLM, a_host, wants

OFFLOADS = {"max_model_len": 16, "cpu_offload_gb": 40}


def a_node(ram_gib=100, booked_gib=0, cards=4):
    devices = tuple(
        DeviceFacts(n, f"GPU-{n}", f"card {n}", "gpu", 80 * GIB) for n in range(1, cards + 1)
    )
    return NodeFacts(
        1, "n1", devices=devices, ram_bytes=ram_gib * GIB, ram_booked_bytes=booked_gib * GIB
    )


def a_need(host_gib):
    size = Sizes(10 * GIB, GIB, GIB, GIB, host_bytes=host_gib * GIB)
    return Need(version_id=1, deployment_id=1, devices=1, sizes={"gpu": size})


@pytest.mark.parametrize(
    ("ram", "booked", "needed", "fits"),
    [
        (100, 0, 80, True),
        (100, 0, 81, False),
        (100, 41, 40, False),
        (100, 100, 0, True),  # it offloads nothing
        (0, 0, 500, True),  # a host that has not said what it has
    ],
)
def test_a_host_gives_four_fifths_of_its_ram_to_weights(ram, booked, needed, fits):
    why = filters.why_not_node(a_need(needed), a_node(ram, booked))
    assert (why == "") is fits
    assert fits or "cpu_offload_gb needs" in why


def test_one_plan_never_gives_the_same_ram_twice():
    fleet, need, placed = Fleet([a_node()]), a_need(40), []
    for number in range(1, 4):
        need = replace(need, deployment_id=number)
        if isinstance(found := rules.place(need, fleet), Placed):
            fleet.reserve(found, need)
            placed.append(found)
    assert len(placed) == 2
    assert placed[0].reason == "80.0 GiB of card 1 on n1, of its own, and 40.0 GiB of its RAM"


def offloading(name):
    source = {"path": "/x", "size_bytes": 60 * GIB}
    version = a_version(f"m-{name}", engine=VLLM, arguments=OFFLOADS, source=source)
    return wants(name, share="own", version=version)


@pytest.fixture
def host(db):
    return a_host(cards=4, host={"memory_bytes": 100 * GIB})


def test_launches_book_the_ram_of_their_host_until_they_are_gone(host):
    for name in ("a", "b", "c"):
        offloading(name)
    for _ in range(3):
        loop.tick(AT)
    [node] = books.nodes(AT)
    assert node.ram_booked_bytes == 2 * 40 * GIB
    assert "cpu_offload_gb needs 40.0 GiB" in Deployment.objects.exclude(note="").get().note
    actions.release(Replica.objects.first(), at=AT)
    assert books.nodes(AT)[0].ram_booked_bytes == 40 * GIB


def test_who_planned_before_another_launch_took_the_ram_is_refused(host):
    offloading("a")
    loop.tick(AT)
    replica = Replica.objects.get()
    with pytest.raises(IntegrityError, match="gave its RAM to another"):
        actions.book_ram(replica, 41 * GIB)
    Node.objects.update(host={})
    actions.book_ram(replica, 500 * GIB)
