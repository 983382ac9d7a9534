"""Put to sleep at zero and woken by the next demand: real engines, and a driver that tells."""

import os
import signal

import pytest
from django.utils import timezone

from control.models import Deployment, Replica, StateChange, WakeUp
from control.states import ReplicaState
from engines import supervisor
from tests.fleet.sleeping.conftest import GIB, HELD, LEFT, TOTAL


@pytest.fixture
def asleep(world):
    world.wants()
    world.until_state("ready")
    want(0)
    return world.until_state("asleep")


def want(count, name="d"):
    Deployment.objects.filter(name=name).update(replicas_wanted=count)


def states_of(replica):
    changes = StateChange.objects.filter(replica=replica).order_by("pk")
    return [change.new for change in changes]


def booked(world, replica):
    return sum(row.memory_bytes for row in world.held().filter(replica=replica))


def test_at_zero_it_gives_its_card_back_and_the_next_demand_wakes_it(world, asleep):
    assert states_of(asleep)[-3:] == ["ready", "draining", "asleep"]
    assert world.used() == [LEFT]
    assert LEFT <= booked(world, asleep) < GIB
    assert asleep.host_booked_bytes == HELD  # what its weights take there, not knowing them
    assert "0.2 GiB of 2.0 GiB" in asleep.reason
    world.restart_node()  # a worker that was killed finds it asleep
    world.step()
    assert Replica.objects.get().state == "asleep"

    want(1)
    ready = world.until_state("ready")
    assert Replica.objects.count() == 1
    assert ready.pid == asleep.pid
    assert states_of(ready)[-4:] == ["asleep", "waking", "warming", "ready"]
    assert (world.used(), booked(world, ready)) == ([HELD], TOTAL)
    assert (ready.awake, ready.sleep_level, ready.host_booked_bytes) == (None, 0, 0)
    assert (ready.drain_by, ready.unrouted_version) == (None, None)
    assert world.call(ready, model="m-d", prompt="x", max_tokens=1).status_code == 200
    assert WakeUp.objects.count() == 1

    want(0)
    world.until_state("asleep")  # again, and it crashes there
    os.kill(asleep.pid, signal.SIGKILL)
    world.forget_process(asleep)
    world.until_state("failed")
    world.until(lambda: not world.held().exists(), "its memory is back")


def test_one_that_answers_and_gives_nothing_back_is_stopped_and_says_why(world):
    world.wants(asleep_bytes=HELD)
    world.until_state("ready")
    want(0)
    stopped = world.until_state("stopped")
    assert "still holds 2.0 GiB of 2.0 GiB" in stopped.reason
    assert "asleep" not in states_of(stopped)
    assert not world.held().exists()
    assert world.used() == [0]


def test_without_sleep_declared_the_engine_has_no_such_pages_and_is_stopped(world):
    world.wants(sleep=0)
    replica = world.until_state("ready")
    assert world.call(replica, "/sleep").status_code == 404
    want(0)
    assert "its calls ended" in world.until_state("stopped").reason


def test_another_launch_gets_its_card_and_then_it_is_launched_anew_elsewhere(world, asleep):
    world.wants("e", sleep=0)
    other = world.until_state("ready", deployment="e")
    stopped = Replica.objects.get(pk=asleep.pk)
    assert stopped.state == "stopped"
    assert (
        "gives way to e, for it sleeps"
        in StateChange.objects.get(
            replica=asleep, new="draining", reason__startswith="gives"
        ).reason
    )
    assert booked(world, other) == TOTAL


def test_a_card_that_others_filled_meanwhile_ends_its_sleep_with_the_cause(world, asleep):
    world.take(0, 23 * GIB)
    want(1)
    failed = world.until_state("failed")
    assert failed.cause == "wake_up"
    assert "others took it" in failed.reason
    world.until(lambda: not world.held().filter(replica=asleep).exists(), "its memory is back")
    assert supervisor.adopt(world.folder(asleep)) is None


def test_one_that_does_not_wake_is_ended_and_another_is_launched_at_once(world):
    world.wants(wake_failure=True)
    world.until_state("ready")
    want(0)
    world.until_state("asleep")
    want(1)
    failed = world.until_state("failed")
    assert "out of memory" in failed.reason
    world.until_state("ready", generation=2)


def test_a_worker_killed_between_the_answer_and_the_proof_goes_on(world):
    world.wants()
    ready = world.until_state("ready")
    want(0)
    world.until_state("draining")
    known = {"held": {"GPU-0": HELD}, "booked": [], "host_booked_bytes": 0}
    rows = world.held().filter(replica=ready)
    known["booked"] = [[r.device_id, r.memory.lower, r.memory.upper] for r in rows]
    world.call(ready, "/sleep").raise_for_status()
    Replica.objects.update(awake=known)
    assert world.until_state("asleep").pid == ready.pid
    want(1)
    assert world.until_state("ready").pid == ready.pid


def test_one_of_a_node_that_was_lost_sleeps_on_until_nobody_wants_sleep(world, asleep):
    asleep.move(ReplicaState.LOST, reason="silent", by="test", at=timezone.now())
    assert world.until_state("asleep").pid == asleep.pid
    Deployment.objects.update(scaling={})
    world.until_state("stopped")
    assert not world.held().exists()
    assert supervisor.adopt(world.folder(asleep)) is None


def test_one_that_was_waking_when_its_node_was_lost_is_ended(world, asleep):
    asleep.move(ReplicaState.WAKING, reason="t", by="t", at=timezone.now(), sleep_level=0)
    asleep.move(ReplicaState.LOST, reason="silent", by="test", at=timezone.now())
    world.until_state("stopped")
    assert not world.held().exists()
    assert supervisor.adopt(world.folder(asleep)) is None
