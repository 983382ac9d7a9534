"""Whatever is asked for, in whatever order: memory is never given away twice."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from django.db import transaction
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as some

from control.models import Deployment, Node, Replica, Reservation
from control.placement import actions, books
from control.placement import room as rooms
from control.placement.displacing import seek
from control.placement.filters import rooms_for
from control.placement.fleet import Fleet
from control.placement.memory import GIB, Sizes
from control.placement.rules import fitting, place
from control.placement.world import DeviceFacts, Need, NodeFacts, Placed, Room
from control.reconcile import actions as reconcile
from control.reconcile.world import Start
from control.states import ReservationState
from tests.fleet.rows import a_deployment, a_device, a_node

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
NEEDS = some.builds(
    lambda gib, kv, ram, devices, share, policy, priority, number: Need(
        version_id=number % 3,
        deployment_id=number,
        devices=devices,
        sizes={
            "gpu": Sizes(gib * GIB, GIB, max(1, kv) * GIB, GIB, host_bytes=ram * GIB),
            "cpu": Sizes(gib * GIB, GIB, max(1, kv) * GIB, GIB),
        },
        model_id=number % 2,
        share=share,
        policy=policy,
        priority=priority,
    ),
    some.integers(1, 60),
    some.integers(0, 20),
    some.integers(0, 30),
    some.sampled_from([1, 1, 1, 2, 4]),
    some.sampled_from(["own", "shared"]),
    some.sampled_from(["pack", "spread"]),
    some.sampled_from(["interactive", "standard", "batch"]),
    some.integers(1, 9),
)
DEVICES = some.lists(
    some.tuples(
        some.sampled_from(["gpu", "gpu", "gpu", "cpu"]),
        some.sampled_from([16, 24, 80]),
        some.integers(0, 12),
        some.booleans(),
    ),
    max_size=5,
)
# RAM that a host has or does not tell, what its kernel has free, what launches under way will take.
HOSTS = some.lists(
    some.tuples(
        DEVICES,
        some.sampled_from([0, 32, 64, 256]),
        some.sampled_from([None, 8, 40]),
        some.integers(0, 8),
    ),
    max_size=4,
)


def a_world(hosts):
    nodes, count = [], 0
    for number, (devices, *ram) in enumerate(hosts):
        found = []
        for kind, total, foreign, linked in devices:
            links = frozenset(f"{number}-{it}" for it in range(len(devices))) if linked else ()
            count += 1
            found.append(
                DeviceFacts(
                    count,
                    f"{number}-{len(found)}",
                    "device",
                    kind,
                    total * GIB,
                    foreign_bytes=foreign * GIB,
                    links=frozenset(links),
                )
            )
        known = {"devices": tuple(found), "weights": frozenset({number % 3})}
        known |= ram_of(found, *ram)
        nodes.append(NodeFacts(number, f"n{number}", **known))
    return nodes


def ram_of(devices, total, available, coming):
    """Beside cards; a host without them offers its RAM as a device."""
    if any(device.kind == "cpu" for device in devices):
        return {}
    known = {"ram_bytes": total * GIB, "ram_booked_bytes": coming * GIB}
    if not total or available is None:
        return known
    return known | {"ram_available_bytes": available * GIB, "ram_coming_bytes": coming * GIB}


@settings(max_examples=150, deadline=None)
@given(hosts=HOSTS, needs=some.lists(NEEDS, max_size=12))
def test_no_order_of_launches_books_a_byte_twice(hosts, needs):
    fleet = Fleet(a_world(hosts))
    began = {node.id: node for node in fleet.nodes}
    ram = Counter()
    for need in needs:
        # The index finds a place exactly if a look at every device does.
        there_is = any(fitting(need, room, it) for it in fleet.nodes for room in rooms_for(need))
        found = place(need, fleet)
        assert isinstance(found, Placed) is there_is, (need, found)
        if isinstance(found, Placed):
            fleet.reserve(found, need)
            assert found.kv_bytes >= GIB
            assert found.host_bytes == rooms.host_bytes(need, on_devices(found, fleet))
            ram[found.node_id] += found.host_bytes
        for node in fleet.nodes:
            was, given_away = began[node.id], ram[node.id]
            assert node.ram_booked_bytes == was.ram_booked_bytes + given_away
            assert node.ram_coming_bytes == was.ram_coming_bytes + given_away
            assert_ram_is_sound(node)
            for device in node.devices:
                assert_sound(device)


def on_devices(placed, fleet):
    ids = {share.device_id for share in placed.shares}
    return [device for device in fleet.node(placed.node_id).devices if device.id in ids]


def assert_ram_is_sound(node):
    """Neither more than may be booked, nor more to come than the kernel still has free."""
    if node.ram_bytes:
        assert node.ram_booked_bytes <= node.ram_bytes * rooms.RAM_RATIO
    if node.ram_available_bytes is not None:
        assert node.ram_coming_bytes <= node.ram_available_bytes


def assert_sound(device):
    spans = sorted(device.booked)
    assert all(0 <= lower < upper <= device.memory_total_bytes for lower, upper in spans)
    assert all(first[1] <= second[0] for first, second in zip(spans, spans[1:], strict=False))
    whole = spans == [(0, device.memory_total_bytes)]
    if device.kind == "gpu" and device.holders and not whole:
        assert len({holder.priority for holder in device.holders}) == 1
        booked = sum(upper - lower for lower, upper in spans)
        assert booked + device.foreign_bytes <= device.memory_total_bytes


@settings(max_examples=150, deadline=None)
@given(hosts=HOSTS, needs=some.lists(NEEDS, max_size=12))
def test_what_is_kept_for_one_is_given_to_nobody(hosts, needs):
    fleet = Fleet(a_world(hosts))
    kept = set()
    for need in needs:
        match seek(need, fleet):
            case Placed() as found:
                assert not kept & {share.device_id for share in found.shares}
                fleet.reserve(found, need)
        for node in fleet.nodes:
            assert_ram_is_sound(node)
        kept = {it.id for node in fleet.nodes for it in node.devices if it.blocked}


OFFLOADS = Need(
    version_id=1,
    deployment_id=1,
    devices=1,
    sizes={"gpu": Sizes(10 * GIB, GIB, GIB, GIB, host_bytes=20 * GIB)},
)
STEPS = some.lists(
    some.one_of(
        some.tuples(some.just("place"), NEEDS, some.booleans()),
        some.tuples(some.just("release"), some.integers(0, 5), some.booleans()),
        some.tuples(some.just("kernel"), some.integers(0, 64), some.booleans()),
    ),
    max_size=10,
)


@pytest.mark.django_db
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
@example(steps=[("place", replace(OFFLOADS, deployment_id=it), True) for it in (1, 2, 3)])
@example(steps=[("place", OFFLOADS, True), ("release", 0, True), ("place", OFFLOADS, True)])
@example(steps=[("kernel", 19, False), ("place", OFFLOADS, True)])
def test_the_books_are_the_rows_after_every_step(db, steps):
    """A plan is carried out late or twice: what it saw may be gone."""
    with transaction.atomic():
        node = a_node(at=AT, host={"memory_bytes": 64 * GIB})
        for number in range(3):
            a_device(node, 80 * GIB, at=AT, kind="gpu", uuid=f"GPU-{number}", index=number)
        stale = books.nodes(AT)
        for verb, what, is_late in steps:
            if verb == "place":
                launch(what, stale if is_late else books.nodes(AT))
            elif verb == "kernel":
                has = {"memory_free_bytes": what * GIB, "memory_read_at": AT}
                Node.objects.filter(pk=node.pk).update(**has)
            elif replica := Replica.objects.order_by("pk")[what : what + 1].first():
                for _ in range(1 + is_late):
                    actions.release(replica, at=AT)
            assert_rows_are_sound()
        transaction.set_rollback(True)


def assert_rows_are_sound():
    by_device = Counter()
    for row in Reservation.objects.filter(state=ReservationState.HELD):
        by_device[row.device_id] += row.memory_bytes
    [node] = books.nodes(AT)
    holders = Replica.objects.filter(reservations__state=ReservationState.HELD).distinct()
    ram = sum(holders.values_list("host_booked_bytes", flat=True))
    assert node.ram_booked_bytes == ram <= node.ram_bytes * rooms.RAM_RATIO
    for device in node.devices:
        assert_sound(device)
        assert sum(upper - lower for lower, upper in device.booked) == by_device[device.id]
        assert by_device[device.id] <= device.memory_total_bytes


def launch(need, nodes):
    name = f"d{need.deployment_id}"
    deployment = Deployment.objects.filter(name=name).first() or a_deployment(name)
    need = replace(need, deployment_id=deployment.pk, version_id=deployment.version_id)
    found = place(need, Fleet(nodes))
    if isinstance(found, Placed):
        generation = deployment.replicas.count() + 1
        start = Start(deployment.pk, deployment.version_id, generation, found, found.reason)
        [now] = books.nodes(AT)
        if reconcile.start(start, by="test", at=AT):
            # However old the plan: its RAM is free as it is carried out.
            assert found.host_bytes <= rooms.ram_free_bytes(now)
        assert found.room in (Room.OWN, Room.SHARED)
