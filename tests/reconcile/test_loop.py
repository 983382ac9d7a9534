"""Ticks against a real database: what is written down, and what is not done twice."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from control.models import Deployment, Node, Replica, Reservation, SnapshotPart
from control.placement.memory import GIB
from control.reconcile import actions, loop
from control.reconcile.world import Fail
from control.routes import compiler
from control.states import DeploymentState, NodeState, Part, ReplicaState, ReservationState
from tests.at_once import at_once
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica, a_version

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
EXTERNAL = {"kind": "external", "url": "http://127.0.0.1:9/v1", "served_name": "m"}


def rest(at=AT, ticks_max=20):
    """Tick until nothing is done any more."""
    for _ in range(ticks_max):
        if not loop.tick(at):
            return
    raise AssertionError("reconcile does not come to rest")


@pytest.mark.django_db
def test_a_wanted_replica_is_placed_with_its_memory():
    a_device(a_node(at=AT), 8 * GIB, at=AT)
    a_deployment()
    rest()
    replica = Replica.objects.get()
    assert (replica.state, replica.generation, replica.node.name) == ("placed", 1, "n1")
    assert replica.version == replica.deployment.version
    assert "on n1" in replica.reason
    assert Reservation.objects.get().replica == replica


@pytest.mark.django_db
def test_says_on_the_deployment_why_it_waits_and_takes_it_back():
    deployment = a_deployment()
    rest()
    deployment.refresh_from_db()
    assert "no node has joined" in deployment.note
    a_device(a_node(at=AT), 8 * GIB, at=AT)
    rest()
    deployment.refresh_from_db()
    assert deployment.note == ""


@pytest.mark.django_db(transaction=True)
def test_two_ticks_at_once_make_one_launch():
    a_device(a_node(at=AT), 8 * GIB, at=AT)
    a_deployment()
    at_once(*[partial(loop.tick, AT)] * 2)
    assert Replica.objects.count() == 1


@pytest.mark.django_db
def test_an_external_engine_gets_its_address_and_waits_for_probes():
    a_deployment(version=a_version(engine=EXTERNAL, memory={"calls": 7}))
    rest()
    replica = Replica.objects.get()
    assert (replica.state, replica.host, replica.port) == ("starting", "127.0.0.1", 9)
    assert replica.node is None
    assert replica.slots == 7


@pytest.mark.django_db
def test_a_drained_deployment_drains_and_an_external_one_ends_at_once():
    deployment = a_deployment(version=a_version(engine=EXTERNAL))
    rest()
    Deployment.objects.update(state=DeploymentState.DRAINING, replicas_wanted=0)
    rest()
    assert Replica.objects.get().state == "stopped"
    deployment.refresh_from_db()
    assert deployment.note == ""


@pytest.mark.django_db
def test_t01_draining_is_written_before_anything_is_stopped():
    node = a_node(at=AT)
    replica = a_replica(a_deployment(wanted=0), node, at=AT)
    rest()
    replica.refresh_from_db()
    assert replica.state == "draining"
    assert replica.drain_by > AT


@pytest.mark.django_db
def test_e05_a_failed_launch_is_followed_by_one_more_after_its_back_off():
    a_device(a_node(at=AT), 8 * GIB, at=AT)
    deployment = a_deployment()
    ended = {"state": ReplicaState.FAILED, "ended_at": AT, "cause": "crashed", "reason": "boom"}
    a_replica(deployment, Node.objects.get(), at=AT, **ended)
    rest()
    deployment.refresh_from_db()
    assert "crashed: boom" in deployment.note
    assert Replica.objects.count() == 1
    rest(deployment.launch_after)
    assert Replica.objects.get(generation=2).state == "placed"


@pytest.mark.django_db
def test_a02_gateways_learn_that_a_start_failed_and_that_it_is_tried_again():
    a_device(a_node(at=AT), 8 * GIB, at=AT)
    deployment = a_deployment()
    ended = {"state": ReplicaState.FAILED, "ended_at": AT, "cause": "crashed", "reason": "boom"}
    a_replica(deployment, Node.objects.get(), at=AT, **ended)
    told = _told(AT)
    assert (told.hindrance, told.cause) == ("back_off", "crashed")
    assert told.launch_after > AT.timestamp()
    deployment.refresh_from_db()
    told = _told(deployment.launch_after)
    assert (told.hindrance, told.cause, told.launch_after) == ("", "", None)


def _told(at):
    """Of the one deployment, to gateways; asserts that they hear of it."""
    before = SnapshotPart.objects.get(pk=Part.ROUTES).version
    rest(at)
    part = SnapshotPart.objects.get(pk=Part.ROUTES)
    assert part.version > before
    [told] = compiler.compile_part(Part.ROUTES, part.version).deployments.values()
    return told


@pytest.mark.django_db
def test_a_lost_node_is_replaced_elsewhere_and_its_booking_stays():
    silent = a_node("n1", at=AT - timedelta(seconds=90), state=NodeState.UNKNOWN)
    Node.objects.update(state_at=AT - timedelta(seconds=60))
    a_device(silent, 8 * GIB, at=AT)
    old = a_replica(a_deployment(), silent, at=AT)
    Reservation.objects.create(device=silent.devices.get(), replica=old, memory=(0, GIB))
    a_device(a_node("n2", at=AT), 8 * GIB, at=AT)
    rest()
    old.refresh_from_db()
    assert old.state == "lost"
    assert Replica.objects.get(generation=2).node.name == "n2"
    assert old.reservations.get().state == ReservationState.HELD


@pytest.mark.django_db
def test_a_step_is_not_taken_if_the_replica_has_moved_on_since_the_plan():
    """It seemed stuck, and serves by now: its calls are not ended."""
    replica = a_replica(a_deployment(), a_node(at=AT), at=AT, state=ReplicaState.READY)
    action = Fail(replica.pk, "stalled", "no progress for 900 s")
    given = {"by": "test", "at": AT}
    assert not actions.carry_out(action, seen={replica.pk: ReplicaState.WARMING}, **given)
    assert Replica.objects.get().state == "ready"
    assert actions.carry_out(action, seen={replica.pk: ReplicaState.READY}, **given)
