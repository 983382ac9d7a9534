"""The ledger of device memory, against a real database."""

from datetime import UTC, datetime
from functools import partial

import pytest
from django.db import IntegrityError, transaction

from control.models import Deployment, Replica, Reservation
from control.placement import actions, books
from control.placement.memory import GIB, Sizes
from control.placement.world import Need, Placed, Share, Unplaced
from control.reconcile import actions as reconcile
from control.reconcile.world import Start
from control.states import ReservationState
from tests.at_once import at_once
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def held(device):
    return Reservation.objects.filter(device=device, state=ReservationState.HELD)


def a_need(deployment, gib):
    sizes = {"cpu": Sizes(gib * GIB, 0, 0, 0)}
    return Need(deployment.version_id, deployment.pk, 1, sizes)


@pytest.mark.django_db(transaction=True)
def test_p01_two_launches_at_once_never_book_the_same_bytes():
    device = a_device(a_node(at=AT), 80 * GIB, at=AT)
    deployments = [a_deployment(f"d{number}") for number in range(6)]

    def launch(deployment):
        share = Share(device.pk, ((0, 30 * GIB),))  # all have read the same books
        placed = Placed(device.node_id, "n1", (share,), 0, "there is room")
        start = Start(deployment.pk, deployment.version_id, 1, placed, "room")
        return reconcile.start(start, by="test", at=AT)

    started = at_once(*[partial(launch, deployment) for deployment in deployments])
    assert sorted(started) == [False] * 5 + [True]
    assert held(device).count() == 1
    assert Replica.objects.count() == 1  # the launch of a loser is not half made


@pytest.mark.django_db
def test_the_database_refuses_more_than_the_device_has():
    device = a_device(a_node(at=AT), 8 * GIB, at=AT)
    replica = a_replica(a_deployment(), device.node, at=AT)
    with pytest.raises(IntegrityError), transaction.atomic():
        actions.book(replica, (Share(device.pk, ((0, 9 * GIB),)),))


@pytest.mark.django_db
def test_released_bytes_can_be_booked_again():
    device = a_device(a_node(at=AT), 8 * GIB, at=AT)
    first = a_replica(a_deployment("one"), device.node, at=AT)
    second = a_replica(a_deployment("two"), device.node, at=AT)
    actions.book(first, (Share(device.pk, ((0, 5 * GIB),)),))
    assert actions.release(first, at=AT) == 1
    assert actions.release(first, at=AT) == 0
    actions.book(second, (Share(device.pk, ((0, 5 * GIB),)),))
    assert held(device).get().replica == second


@pytest.mark.django_db
def test_a_measured_launch_changes_its_booking_on_its_device():
    device = a_device(a_node(at=AT), 8 * GIB, at=AT)
    deployment = a_deployment()
    replica = a_replica(deployment, device.node, at=AT)
    actions.book(replica, (Share(device.pk, ((0, 2 * GIB),)),))
    assert isinstance(actions.rebook(replica, a_need(deployment, 5), at=AT), Placed)
    assert held(device).get().memory_bytes == 5 * GIB


@pytest.mark.django_db
def test_a_measure_that_does_not_fit_keeps_the_old_booking_and_says_why():
    device = a_device(a_node(at=AT), 8 * GIB, at=AT)
    deployment = a_deployment()
    replica = a_replica(deployment, device.node, at=AT)
    actions.book(replica, (Share(device.pk, ((0, 2 * GIB),)),))
    refused = actions.rebook(replica, a_need(deployment, 9), at=AT)
    assert isinstance(refused, Unplaced)
    assert "9.0 GiB are needed" in str(refused)
    assert held(device).get().memory_bytes == 2 * GIB


@pytest.mark.django_db(transaction=True)
def test_two_that_measure_in_the_same_moment_agree():
    device = a_device(a_node(at=AT), 8 * GIB, at=AT)
    deployment = a_deployment()
    replica = a_replica(deployment, device.node, at=AT)
    actions.book(replica, (Share(device.pk, ((0, 2 * GIB),)),))

    def measure():
        return actions.rebook(replica, a_need(deployment, 5), at=AT)

    assert {type(result) for result in at_once(*[measure] * 4)} == {Placed}
    assert held(device).get().memory_bytes == 5 * GIB


@pytest.mark.django_db
def test_facts_tell_what_is_booked_foreign_and_unread():
    node = a_node(at=AT)
    device = a_device(node, 8 * GIB, at=AT, foreign_bytes=GIB)
    silent = a_device(node, 8 * GIB, at=datetime(2026, 11, 1, 11, tzinfo=UTC), uuid="cpu-old")
    replica = a_replica(a_deployment(), node, at=AT)
    actions.book(replica, (Share(device.pk, ((0, GIB), (2 * GIB, 3 * GIB))),))
    [seen] = books.nodes(AT)
    by_id = {found.id: found for found in seen.devices}
    assert sorted(by_id[device.pk].booked) == [(0, GIB), (2 * GIB, 3 * GIB)]
    assert by_id[device.pk].foreign_bytes == GIB
    assert "was not read" in by_id[silent.pk].blocked
    assert Deployment.objects.get().pk in seen.deployments
