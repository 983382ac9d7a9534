"""Launched, seen ready, killed, adopted, drained: real processes under the real supervisor."""

import os
import signal
from contextlib import suppress
from datetime import timedelta
from threading import Thread

import httpx
from django.utils import timezone

from control.fleet import node_tasks, returning
from control.fleet.health import rules
from control.models import Deployment, Replica, SnapshotPart, StateChange
from control.states import DeploymentState, NodeState, Part, ReplicaState
from engines import supervisor
from engines.kinds import KINDS


def call_that_is_cut(world, replica):
    with suppress(httpx.HTTPError):
        world.call(replica, model="m-d", prompt="x", max_tokens=1)


def running_calls(replica):
    url = f"http://{replica.host}:{replica.port}/metrics"
    return KINDS["stub"].parse_metrics(httpx.get(url, trust_env=False, timeout=30).text).running


def states_of(replica):
    changes = StateChange.objects.filter(replica=replica).order_by("pk")
    return [change.new for change in changes]


def test_wanted_becomes_ready_step_by_step(world):
    world.wants(kv_cache_tokens=4096)
    replica = world.until_state("ready")
    assert states_of(replica)[:3] == ["placed", "preparing", "starting"]
    assert states_of(replica)[-2:] == ["warming", "ready"]
    assert replica.kv_tokens == 4096
    assert replica.slots > 0
    assert replica.pid
    answer = world.call(replica, model="m-d", prompt="x", max_tokens=2)
    assert answer.status_code == 200


def test_an_engine_that_tells_its_cache_late_is_heard_late(world):
    world.wants(kv_cache_tokens=4096)
    replica = world.until_state("ready")
    Replica.objects.filter(pk=replica.pk).update(kv_tokens=None)
    before = SnapshotPart.objects.get(pk=Part.REPLICAS).version
    world.step()
    assert Replica.objects.get(pk=replica.pk).kv_tokens == 4096
    assert SnapshotPart.objects.get(pk=Part.REPLICAS).version == before + 1


def test_e06_drains_only_when_its_calls_have_ended(world, settings):
    world.wants()
    replica = world.until_state("ready")
    Deployment.objects.update(state=DeploymentState.DRAINING, replicas_wanted=0)
    world.until_state("draining")
    assert world.call(replica, model="m-d", prompt="x", max_tokens=1).status_code == 200
    ended = world.until_state("stopped")
    assert ended.ended_at
    assert not world.held().exists()
    assert supervisor.adopt(node_tasks.launch.folder_of(replica)) is None


def test_e06_past_its_limit_it_is_stopped_with_calls_running(world):
    world.wants()
    replica = world.until_state("ready")
    world.script(replica, ttft_seconds=600)
    Thread(target=call_that_is_cut, args=(world, replica), daemon=True).start()
    world.until(lambda: running_calls(replica) == 1, "no call runs")
    Replica.objects.filter(pk=replica.pk).update(state="draining", drain_by=timezone.now())
    Deployment.objects.update(replicas_wanted=0)
    world.until_state("stopped")
    assert not world.held().exists()
    assert supervisor.adopt(node_tasks.launch.folder_of(replica)) is None


def test_a_killed_engine_is_replaced_by_a_new_launch(world):
    world.wants()
    first = world.until_state("ready")
    os.kill(first.pid, signal.SIGKILL)
    world.until_state("failed")
    second = world.until_state("ready", generation=2)
    assert second.pid != first.pid
    assert set(world.held().values_list("replica_id", flat=True)) == {second.pk}


def test_a_new_node_worker_adopts_the_engine_by_its_pid(world):
    world.wants()
    replica = world.until_state("ready")
    world.restart_node()
    world.step()
    again = Replica.objects.get()
    assert (again.state, again.pid) == ("ready", replica.pid)
    assert world.call(replica, model="m-d", prompt="x", max_tokens=1).status_code == 200


def test_p04_an_engine_of_a_node_thought_lost_returns_with_it(world):
    world.wants()
    replica = world.until_state("ready")
    replica.move(ReplicaState.LOST, reason="silent", by="test", at=timezone.now())
    world.until_state("ready")
    assert Replica.objects.count() == 1
    assert Replica.objects.get().pid == replica.pid


def test_one_that_drained_when_its_node_was_lost_serves_on_without_that_drain(world):
    world.wants()
    replica = world.until_state("ready")
    at = timezone.now()
    replica.move(ReplicaState.DRAINING, reason="t", by="t", at=at, drain_by=at)
    replica.move(ReplicaState.LOST, reason="silent", by="test", at=at)
    assert (replica.drain_by, replica.unrouted_version is None) == (at, False)
    world.watch.look(replica.pk)  # its node alone: reconcile may want another one
    again = Replica.objects.get(pk=replica.pk)
    assert (again.state, again.drain_by, again.unrouted_version) == ("ready", None, None)


def test_one_of_a_lost_node_that_does_not_answer_drains_for_so_long_and_no_longer(world, settings):
    world.wants()
    replica = world.until_state("ready")
    at = timezone.now()
    replica.move(ReplicaState.LOST, reason="silent", by="test", at=at)
    returning.returned(replica, at + timedelta(seconds=59), well=False)
    assert replica.state == "lost"
    late = at + timedelta(seconds=61)
    returning.returned(replica, late, well=False)
    drained = Replica.objects.get(pk=replica.pk)
    assert drained.state == "draining"
    assert drained.drain_by == late + timedelta(seconds=settings.WEIR_DRAIN_SECONDS)


def test_a_lost_replica_whose_engine_is_gone_is_ended_and_replaced(world):
    world.wants()
    replica = world.until_state("ready")
    replica.move(ReplicaState.LOST, reason="silent", by="test", at=timezone.now())
    supervisor.stop(node_tasks.launch.folder_of(replica), 0)
    assert world.until_state("stopped").reason.startswith("its engine was gone")
    world.until_state("ready", generation=2)


def test_what_a_launch_takes_of_its_hosts_ram_is_known_while_it_starts(world):
    world.wants(start_seconds=0.1, start_stall=True)  # so that it never serves
    replica = world.until_state("starting")
    world.until(lambda: Replica.objects.get().pid, "no process")
    world.watch._engines.device_bytes = {Replica.objects.get().pid: rules.GROWTH_BYTES}
    world.watch.look(replica.pk)
    held = Replica.objects.get().host_memory_bytes
    assert held is not None
    assert held < rules.GROWTH_BYTES  # of its host: what is on cards is booked there


def test_e05_a_cause_that_will_not_pass_is_not_tried_again(world):
    deployment = world.wants(start_failure="kv_cache_too_small")
    failed = world.until_state("failed")
    assert not failed.retry
    assert failed.log_tail
    for _ in range(5):
        world.step()
    deployment.refresh_from_db()
    assert "not tried again" in deployment.note
    assert Replica.objects.count() == 1
    assert not world.held().exists()


def test_e02_a_hung_engine_is_ejected_then_replaced(world, settings):
    world.wants()
    replica = world.until_state("ready")
    usual, settings.WEIR_HANG_SECONDS = settings.WEIR_HANG_SECONDS, 0.5
    world.script(replica, hang=True, fail_after_tokens=2)
    with_hang = {"model": "m-d", "prompt": "x", "max_tokens": 5, "stream": True}
    start_and_leave_running(world, replica, with_hang)
    world.until_state("unhealthy")
    failed = world.until_state("failed")
    assert failed.cause == "hung"
    settings.WEIR_HANG_SECONDS = usual  # a busy machine is slower than that
    world.until_state("ready", generation=2)


def test_messages_that_come_twice_and_late_do_nothing(world):
    world.wants()
    replica = world.until_state("ready")
    before = states_of(replica)
    for task in (node_tasks.prepare_replica, node_tasks.start_replica, node_tasks.stop_replica):
        task(replica.pk)
        task(replica.pk + 1000)
    assert states_of(replica) == before
    assert world.call(replica, model="m-d", prompt="x", max_tokens=1).status_code == 200


def test_stopping_all_engines_leaves_no_process_and_no_booking(world):
    world.wants(wanted=2)
    replicas = [world.until_state("ready", generation=n) for n in (1, 2)]
    assert node_tasks.stop_engines(reason="the end", at=timezone.now()) == set()
    assert {row.state for row in Replica.objects.all()} == {"stopped"}
    assert not world.held().exists()
    assert not any(supervisor.adopt(node_tasks.launch.folder_of(row)) for row in replicas)


def test_an_engine_without_a_row_is_ended(world):
    world.wants()
    replica = world.until_state("ready")
    folder = node_tasks.launch.folder_of(replica)
    Deployment.objects.update(state=DeploymentState.DRAINING)
    world.held().delete()
    Replica.objects.filter(pk=replica.pk).update(node=None, state=ReplicaState.STOPPED)
    world.watch.clear_leftovers()
    assert supervisor.adopt(folder) is None


def test_a_node_that_is_cordoned_takes_nothing_new(world):
    world.watch.node.__class__.objects.update(cordoned=True)
    deployment = world.wants()
    for _ in range(3):
        world.step()
    deployment.refresh_from_db()
    assert "is cordoned" in deployment.note
    assert world.watch.node.state == NodeState.READY


def start_and_leave_running(world, replica, body):
    """A call whose answer nobody waits for."""
    Thread(target=world.call, args=(replica,), kwargs=body, daemon=True).start()
