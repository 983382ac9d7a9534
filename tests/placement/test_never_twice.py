"""Whatever is asked for, in whatever order: memory is never given away twice."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from control.models import Deployment, Replica, Reservation
from control.placement import actions, books
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
    lambda gib, kv, devices, share, policy, priority, number: Need(
        version_id=number % 3,
        deployment_id=number,
        devices=devices,
        sizes=dict.fromkeys(("gpu", "cpu"), Sizes(gib * GIB, GIB, max(1, kv) * GIB, GIB)),
        model_id=number % 2,
        share=share,
        policy=policy,
        priority=priority,
    ),
    some.integers(1, 60),
    some.integers(0, 20),
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


def a_world(hosts):
    nodes, count = [], 0
    for number, devices in enumerate(hosts):
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
        weights = frozenset({number % 3})
        nodes.append(NodeFacts(number, f"n{number}", devices=tuple(found), weights=weights))
    return nodes


@settings(max_examples=150, deadline=None)
@given(hosts=some.lists(DEVICES, max_size=4), needs=some.lists(NEEDS, max_size=12))
def test_no_order_of_launches_books_a_byte_twice(hosts, needs):
    fleet = Fleet(a_world(hosts))
    for need in needs:
        # The index finds a place exactly if a look at every device does.
        there_is = any(fitting(need, room, it) for it in fleet.nodes for room in rooms_for(need))
        found = place(need, fleet)
        assert isinstance(found, Placed) is there_is, (need, found)
        if isinstance(found, Placed):
            fleet.reserve(found, need)
            assert found.kv_bytes >= GIB
        for node in fleet.nodes:
            for device in node.devices:
                assert_sound(device)


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
@given(hosts=some.lists(DEVICES, max_size=4), needs=some.lists(NEEDS, max_size=12))
def test_what_is_kept_for_one_is_given_to_nobody(hosts, needs):
    fleet = Fleet(a_world(hosts))
    kept = set()
    for need in needs:
        match seek(need, fleet):
            case Placed() as found:
                assert not kept & {share.device_id for share in found.shares}
                fleet.reserve(found, need)
        kept = {it.id for node in fleet.nodes for it in node.devices if it.blocked}


STEPS = some.lists(
    some.one_of(
        some.tuples(some.just("place"), NEEDS, some.booleans()),
        some.tuples(some.just("release"), some.integers(0, 5), some.booleans()),
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
def test_the_books_are_the_rows_after_every_step(db, steps):
    """A plan is carried out late or twice: what it saw may be gone."""
    with transaction.atomic():
        node = a_node(at=AT)
        for number in range(3):
            a_device(node, 80 * GIB, at=AT, kind="gpu", uuid=f"GPU-{number}", index=number)
        stale = books.nodes(AT)
        for verb, what, is_late in steps:
            if verb == "place":
                launch(what, stale if is_late else books.nodes(AT))
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
        reconcile.start(start, by="test", at=AT)
        assert found.room in (Room.OWN, Room.SHARED)
