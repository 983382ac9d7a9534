"""C01: whatever comes twice, late or not at all, and whoever is killed: one engine, one booking."""

from functools import partial

import pytest
from django.utils import timezone
from kombu.exceptions import OperationalError

from control.celery import app
from control.fleet import launch, node_tasks
from control.models import Replica, StateChange
from control.reconcile import loop
from control.states import ReplicaState
from engines import supervisor
from tests.at_once import at_once

TASKS = (node_tasks.prepare_replica, node_tasks.start_replica, node_tasks.stop_replica)
# Steps of a launch, and what the platform does to bring it there.
STEPS = ("placed", "starting", "warming", "ready")


@pytest.fixture
def world(transactional_db, world):
    """Its workers are threads, each with a connection of its own."""
    return world


def deliver_twice(replica_id):
    """Two workers are given the same message."""
    for task in TASKS:
        at_once(*[partial(task, replica_id)] * 2)


def reach(world, step):
    if step == "placed":
        loop.tick()
        return Replica.objects.get(state=step)
    if step == "starting":
        loop.tick()
        node_tasks.prepare_replica(Replica.objects.get().pk)
        return Replica.objects.get(state=step)
    return world.until_state(step)


@pytest.mark.parametrize("step", STEPS)
def test_c01_a_worker_killed_at_a_step_and_its_messages_twice_start_one_engine(world, step):
    world.watch.read_devices()
    world.wants(start_seconds=1)
    replica = reach(world, step)
    world.restart_node()  # all that the worker before it knew is gone
    deliver_twice(replica.pk)
    ready = world.until_state("ready")
    assert ready.pk == replica.pk
    assert Replica.objects.count() == 1
    [record] = [supervisor.adopt(folder) for folder in launch.folder_of(ready).parent.iterdir()]
    assert record.pid == ready.pid
    assert set(world.held().values_list("replica", flat=True)) == {ready.pk}
    assert world.held().count() == 1
    moves = list(StateChange.objects.filter(replica=ready).values_list("new", flat=True))
    assert len(moves) == len(set(moves))  # no step was taken twice


def test_c01_while_the_broker_is_away_the_node_sees_by_itself(world, monkeypatch, caplog):
    def away(*_args, **_kwargs):
        raise OperationalError("Connection refused")

    monkeypatch.setattr(app, "send_task", away)  # not ours: the broker that is away
    world.wants()
    world.until_state("ready")
    assert Replica.objects.count() == 1
    assert "no hint weir.prepare_replica" in caplog.text


def test_c01_a_message_of_an_earlier_launch_changes_nothing(world):
    world.wants()
    first = world.until_state("ready")
    node_tasks.fail(first, "crashed", "for a test", at=timezone.now())
    second = world.until_state("ready", generation=2)
    deliver_twice(first.pk)
    assert Replica.objects.get(pk=first.pk).state == ReplicaState.FAILED
    assert supervisor.adopt(launch.folder_of(first)) is None
    assert supervisor.adopt(launch.folder_of(second)).pid == second.pid
    assert set(world.held().values_list("replica", flat=True)) == {second.pk}
