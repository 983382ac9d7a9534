"""Weights that a card does not hold lie in the RAM of its host, which is booked too."""

from dataclasses import replace
from datetime import timedelta
from threading import Barrier, Thread

import pytest
from django.db import IntegrityError, connection

from control.models import Deployment, Node, Replica, VersionPeak
from control.placement import actions, books, facts, filters, room, rules
from control.placement.fleet import Fleet
from control.placement.memory import GIB, Sizes
from control.placement.world import (
    DeviceFacts,
    Holder,
    Need,
    NodeFacts,
    Placed,
    Room,
    Share,
    Unplaced,
)
from control.reconcile import actions as reconcile
from control.reconcile import loop
from control.reconcile.world import Start
from control.states import ReplicaState
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
def test_a_host_gives_four_fifths_of_its_ram_beside_its_cards(ram, booked, needed, fits):
    why = filters.why_not_node(a_need(needed), a_node(ram, booked))
    assert (why == "") is fits
    assert fits or f"{needed}.0 GiB are needed, for processes and what cpu_offload_gb" in why


@pytest.mark.parametrize(
    ("available", "coming", "needed", "fits"),
    [
        (None, 0, 60, True),  # not read lately: the ledger alone
        (60, 0, 60, True),
        (60, 0, 61, False),  # others of the host hold the rest
        (60, 20, 40, True),
        (60, 20, 41, False),  # launches under way will take it
        (90, 0, 61, False),  # free, but booked
        (10, 20, 0, True),
    ],
)
def test_launches_under_way_take_what_the_host_still_shows_as_free(available, coming, needed, fits):
    read = None if available is None else available * GIB
    node = replace(a_node(booked_gib=20), ram_available_bytes=read, ram_coming_bytes=coming * GIB)
    why = filters.why_not_node(a_need(needed), node)
    assert (why == "") is fits
    assert fits or f"{available}.0 GiB are free, {coming}.0 GiB go to launches that start" in why


def a_holder(gib=10, taken=None, **fields):
    taken_bytes = None if taken is None else taken * GIB
    return Holder(1, 1, ranges=((0, gib * GIB),), taken_bytes=taken_bytes, **fields)


@pytest.mark.parametrize(
    ("holders", "coming"),
    [
        ((), 0),
        ((a_holder(starts=True),), 10),
        ((a_holder(starts=True, taken=4),), 6),
        ((a_holder(taken=7),), 3),  # it serves, and its cache fills
        ((a_holder(),), 0),  # it serves, and was not read: what is free shows it
        ((a_holder(taken=12), a_holder(starts=True)), 10),  # one that grew gives nothing away
    ],
)
def test_what_is_still_to_come_of_a_hosts_ram(holders, coming):
    assert room.coming_bytes(holders) == coming * GIB


@pytest.mark.parametrize(
    ("taken", "available", "free"),
    [
        (10, 10, 6),
        (4, 16, 6),  # what it has booked and not taken is not free
        (12, 8, 4),  # it took more than it booked: that hides nobody who starts
    ],
)
def test_who_starts_on_a_hosts_ram_is_counted_whatever_others_took(taken, available, free):
    """Of 20 GiB one has booked 10; another 4, and has taken none yet."""
    holders = (a_holder(10, taken), a_holder(4, starts=True))
    device = DeviceFacts(
        *(1, "cpu-1", "RAM", "cpu", 20 * GIB),
        booked=((0, 10 * GIB), (10 * GIB, 14 * GIB)),
        memory_free_bytes=available * GIB,
        coming_bytes=room.coming_bytes(holders),
    )
    kept = int(20 * GIB * room.RESERVE_RATIO)
    assert room.free_bytes(device) == free * GIB - kept


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
    return a_host(cards=4, host={"memory_bytes": 110 * GIB})


def test_launches_book_the_ram_of_their_host_until_they_are_gone(host):
    for name in ("a", "b", "c"):
        offloading(name)
    for _ in range(3):
        loop.tick(AT)
    [node] = books.nodes(AT)
    assert node.ram_booked_bytes == 2 * 43 * GIB  # an API server and one process of a card too
    assert "43.0 GiB are needed" in Deployment.objects.exclude(note="").get().note
    actions.release(Replica.objects.first(), at=AT)
    assert books.nodes(AT)[0].ram_booked_bytes == 43 * GIB


def test_two_launches_at_once_do_not_see_the_same_free_ram(host):
    """50 GiB are free and 88 may be booked: the second comes when the first has taken its own."""
    Node.objects.update(memory_free_bytes=50 * GIB, memory_read_at=AT)
    offloading("a")
    offloading("b")
    loop.tick(AT)
    first = Replica.objects.get()
    hindered = Deployment.objects.exclude(pk=first.deployment_id).get()
    assert "50.0 GiB are free, 43.0 GiB go to launches that start" in hindered.note
    # It loads: what it has taken is not to come any more, and is not free any more either.
    Replica.objects.update(state=ReplicaState.LOADING, host_memory_bytes=40 * GIB)
    Node.objects.update(memory_free_bytes=10 * GIB)
    [node] = books.nodes(AT)
    assert (node.ram_coming_bytes, room.ram_free_bytes(node)) == (3 * GIB, 7 * GIB)
    # Others end, it serves: there is room for both.
    Replica.objects.update(state=ReplicaState.READY, ready_at=AT)
    Node.objects.update(memory_free_bytes=45 * GIB, memory_read_at=AT + timedelta(seconds=1))
    for second in range(2, 12):
        loop.tick(AT + timedelta(seconds=second))
    assert Replica.objects.count() == 2


@pytest.mark.parametrize(("read_seconds_ago", "known"), [(0, True), (15, True), (16, False)])
def test_an_old_reading_of_ram_says_nothing_about_now(host, read_seconds_ago, known):
    read_at = AT - timedelta(seconds=read_seconds_ago)
    Node.objects.update(memory_free_bytes=GIB, memory_read_at=read_at)
    [node] = books.nodes(AT)
    assert node.ram_available_bytes == (GIB if known else None)


def test_one_that_became_ready_after_the_reading_is_still_to_come(host):
    offloading("a")
    loop.tick(AT)
    Node.objects.update(memory_free_bytes=50 * GIB, memory_read_at=AT)
    Replica.objects.update(state=ReplicaState.READY, ready_at=AT + timedelta(seconds=1))
    assert books.nodes(AT)[0].ram_coming_bytes == 43 * GIB
    Node.objects.update(memory_read_at=AT + timedelta(seconds=2))
    assert books.nodes(AT)[0].ram_coming_bytes == 0


def test_a_launch_that_was_measured_books_what_its_processes_held(host):
    version = a_version("m-a", engine=VLLM, source={"path": "/x", "size_bytes": GIB})
    deployment = wants("a", share="own", version=version)
    assert facts.need(version, deployment).sizes["gpu"].host_bytes == 3 * GIB
    peak = {"device_name": "card 0", "device_kind": "gpu", "measured_at": AT}
    VersionPeak.objects.create(version=version, beside_kv_bytes=GIB, host_bytes=5 * GIB, **peak)
    assert facts.need(version, deployment).sizes["gpu"].host_bytes == 5 * GIB
    assert facts.need(version, deployment).sizes["cpu"].host_bytes == 0


def test_what_files_turned_out_to_need_is_booked_only_if_the_host_has_it(host):
    """The guess was small, the files are large: another launch has the rest of the RAM."""
    offloading("a")
    loop.tick(AT)
    replica = Replica.objects.select_related("node").get()
    need = facts.need(replica.deployment.version, replica.deployment)
    larger = replace(need.sizes["gpu"], host_bytes=90 * GIB)
    refused = actions.rebook(replica, replace(need, sizes={"gpu": larger}), at=AT)
    assert isinstance(refused, Unplaced)
    assert "90.0 GiB are needed" in str(refused)
    assert books.nodes(AT)[0].ram_booked_bytes == 43 * GIB
    larger = replace(larger, host_bytes=60 * GIB)
    assert isinstance(actions.rebook(replica, replace(need, sizes={"gpu": larger}), at=AT), Placed)
    assert books.nodes(AT)[0].ram_booked_bytes == 60 * GIB


def test_who_planned_before_another_launch_took_the_ram_is_refused(host):
    offloading("a")
    loop.tick(AT)
    replica = Replica.objects.get()
    with pytest.raises(IntegrityError, match="gave its RAM to another"):
        actions.book_ram(replica, 46 * GIB, at=AT)
    Node.objects.update(host={})
    actions.book_ram(replica, 500 * GIB, at=AT)


@pytest.mark.django_db(transaction=True)
def test_p01_launches_in_one_moment_never_book_the_same_ram():
    """All were planned from the same books; each has a card of its own."""
    host = a_host(cards=6, host={"memory_bytes": 100 * GIB})
    Node.objects.update(memory_free_bytes=100 * GIB, memory_read_at=AT)
    deployments = [offloading(f"d{number}") for number in range(6)]
    barrier, started = Barrier(len(deployments)), []

    def launch(deployment, device):
        share = Share(device.pk, ((0, device.memory_total_bytes),))
        placed = Placed(host.pk, "n1", (share,), 0, "room", Room.OWN, host_bytes=30 * GIB)
        start = Start(deployment.pk, deployment.version_id, 1, placed, "room")
        barrier.wait(timeout=30)
        try:
            started.append(reconcile.start(start, by="test", at=AT))
        finally:
            connection.close()

    pairs = zip(deployments, host.devices.order_by("index"), strict=True)
    threads = [Thread(target=launch, args=pair, daemon=True) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(started) == [False] * 4 + [True] * 2  # 60 of the 80 that may be booked
    assert books.nodes(AT)[0].ram_booked_bytes == 60 * GIB
    assert Replica.objects.count() == 2
