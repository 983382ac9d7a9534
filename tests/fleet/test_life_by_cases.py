"""What the field has seen go wrong in an engine's life, played with real stub engines."""

import os
import signal
import socket

import httpx
import pytest
from django.utils import timezone

from control.fleet import devices, launch
from control.fleet.health.rules import CANARIES_FAILED_MAX
from control.fleet.warming import rules as warming
from control.models import Attempt, CatalogModel, Deployment, Replica, StateChange
from control.models.sealing import unseal
from control.states import Purpose, ReplicaState, ReservationState
from engines import supervisor
from engines.spec import GpuReading
from tests.engines.test_supervisor import eventually


def seen(replica):
    url = f"http://{replica.host}:{replica.port}/stub/seen"
    headers = {"Authorization": f"Bearer {unseal(replica.engine_key)}"}
    return httpx.get(url, headers=headers, trust_env=False, timeout=30).json()["requests"]


def test_typical_calls_and_then_one_of_one_token_come_before_any_tenants(world):
    world.wants(max_model_len=512)
    replica = world.until_state("ready")
    *typical, last = [one["body"] for one in seen(replica)]
    lengths = sorted(len(body["prompt"]) for body in typical)
    assert (lengths[0], lengths[-1]) == (16, 508)
    assert len(lengths) == 2 + min(replica.slots, 8)
    assert (last["prompt"], last["max_tokens"]) == ("1", 1)


def test_an_engine_that_says_it_serves_and_does_not_is_given_up(world):
    world.wants()
    replica = world.until_state("warming")
    world.script(replica, times=1000, status=500, error="no kernel")
    failed = world.until_state("failed")
    assert (failed.cause, failed.ready_at) == ("warm_up", None)
    assert "no kernel" in failed.reason
    assert not StateChange.objects.filter(replica=replica, new=ReplicaState.READY).exists()


def test_t01_an_engine_that_is_up_and_answers_503_is_not_routed_to_and_not_given_up(world):
    world.wants()
    replica = world.until_state("warming")
    world.call(replica, "/stub/script", health=503).raise_for_status()
    world.until(lambda: "503" in Replica.objects.get().reason, "nobody says why it is not ready")
    for _ in range(2 * warming.FAILED_MAX):
        world.step()
    assert Replica.objects.get().state == "warming"
    assert seen(replica) == []
    world.call(replica, "/stub/script", clear=True).raise_for_status()
    assert world.until_state("ready").pk == replica.pk


def test_t08_whoever_has_its_port_must_serve_its_model(world):
    world.wants()
    world.until_state("warming")
    CatalogModel.objects.update(name="another")
    world.until(lambda: "serves m-d, not" in Replica.objects.get().reason, "it was not asked")
    assert Replica.objects.get().state == "warming"


def test_e01_what_runs_of_a_launch_that_has_ended_is_ended_and_others_are_left(world):
    world.wants(wanted=2)
    ended, living = (world.until_state("ready", generation=n) for n in (1, 2))
    world.held().filter(replica=ended).update(state=ReservationState.RELEASED)
    Replica.objects.filter(pk=ended.pk).update(state=ReplicaState.FAILED)
    world.watch.clear_leftovers()
    assert supervisor.adopt(launch.folder_of(ended)) is None
    assert supervisor.adopt(launch.folder_of(living)).pid == living.pid


@pytest.mark.parametrize(
    ("shown", "ended", "ghosts"),
    [
        ((), (7, 8), ()),
        ((7,), (7, 8), (7,)),
        ((os.getpid(),), (os.getpid(),), ()),  # the number is another process's by now
        ((9,), (7, 8), ()),  # a stranger
    ],
)
def test_e01_a_process_that_the_driver_still_shows_holds_the_memory(shown, ended, ghosts, tmp_path):
    numbers = {7: 4_194_301, 8: 4_194_302, 9: 4_194_303}  # above what this host gives out
    pids = tuple((numbers.get(pid, pid), 1) for pid in shown)
    reading = GpuReading("GPU-1", 0, "gpu", "card", 8, 4, None, None, None, processes=pids)
    of_it = [numbers.get(pid, pid) for pid in ended]
    expected = tuple(numbers[pid] for pid in ghosts)
    assert devices.ghosts([reading], {"GPU-1"}, of_it) == expected
    assert devices.ghosts([reading], {"GPU-2"}, of_it) == ()


def test_e01_who_was_seen_when_it_was_stopped_is_remembered(world):
    world.wants()
    replica = world.until_state("ready")
    stopped = supervisor.stop(launch.folder_of(replica), 0)
    assert stopped.gone
    assert replica.pid in stopped.seen_pids
    assert supervisor.stop(launch.folder_of(replica), 0).seen_pids == stopped.seen_pids


def test_e04_a_port_that_was_taken_meanwhile_costs_one_retry_and_no_launch(world, monkeypatch):
    launch_engine, taken = supervisor.launch, []
    with socket.socket() as other:

        def somebody_is_faster(spec, *how):
            """Between our look at its port and its own."""
            if taken:
                return launch_engine(spec, *how)
            taken.append(spec.port)
            other.bind((spec.host, spec.port))
            other.listen()
            engine = launch_engine(spec, *how)
            eventually(lambda: not supervisor.alive(engine))  # as vLLM: it has not begun to load
            return engine

        monkeypatch.setattr(supervisor, "launch", somebody_is_faster)
        world.wants()
        ready = world.until_state("ready")
    assert ready.generation == 1
    assert taken != [ready.port]
    again = StateChange.objects.filter(replica=ready, old="starting", new="starting")
    assert [f"port {taken[0]} was taken" in change.reason for change in again] == [True]
    assert Replica.objects.count() == 1


def test_e02_front_and_core_stopped_at_once_it_is_left_and_replaced(world, settings):
    world.wants()
    replica = world.until_state("ready")
    usual, settings.WEIR_HANG_SECONDS = settings.WEIR_HANG_SECONDS, 1
    os.kill(replica.pid, signal.SIGSTOP)
    world.until_state("unhealthy")
    assert world.until_state("failed").cause == "hung"
    settings.WEIR_HANG_SECONDS = usual  # a busy machine is slower than that
    world.until_state("ready", generation=2)


def test_e05_an_engine_that_lives_on_and_answers_500_to_everything_is_replaced(world):
    world.wants()
    replica = world.until_state("ready")
    world.script(replica, times=1000, status=500, error="EngineDeadError")
    world.call(replica, "/stub/script", health=503).raise_for_status()
    world.until_state("unhealthy")
    failed = world.until_state("failed")
    assert (failed.cause, failed.retry) == ("hung", True)
    assert "the engine behind it is dead" in failed.reason
    second = world.until_state("ready", generation=2)
    assert world.call(second, model="m-d", prompt="x", max_tokens=1).status_code == 200


def test_e05_one_that_says_it_is_well_and_answers_500_to_everything_is_replaced(world):
    world.wants()
    replica = world.until_state("ready")
    world.script(replica, times=1000, status=500, error="EngineDeadError")

    def ejected():
        answer = world.call(replica, model="m-d", prompt="x", max_tokens=1)
        assert answer.status_code == 500
        return Replica.objects.filter(pk=replica.pk, state=ReplicaState.UNHEALTHY).exists()

    world.until(ejected, "it serves on")
    failed = world.until_state("failed")
    assert (failed.cause, failed.retry) == ("hung", True)
    assert "makes no token" in failed.reason
    probes = Attempt.objects.filter(replica_id=replica.pk, purpose=Purpose.PROBE)
    outcomes = list(probes.values_list("outcome", flat=True))
    assert set(outcomes) == {"failed"}
    assert 2 <= len(outcomes) <= CANARIES_FAILED_MAX  # two are enough where they take long
    second = world.until_state("ready", generation=2)
    assert world.call(second, model="m-d", prompt="x", max_tokens=1).status_code == 200


@pytest.mark.parametrize("failure", ["unknown", "kv_cache_too_small"])
def test_e03_what_exits_while_it_starts_has_failed_at_once_with_its_last_lines(world, failure):
    world.wants(start_failure=failure)
    failed = world.until_state("failed")
    assert failed.ready_at is None
    assert failed.reason
    assert failed.reason.split(": ")[-1][:40] in failed.log_tail
    world.until(lambda: not world.held().filter(replica=failed).exists(), "its memory")
    assert supervisor.adopt(launch.folder_of(failed)) is None
    states = StateChange.objects.filter(replica=failed).values_list("new", flat=True)
    assert ReplicaState.READY not in states  # so gateways never had it
    assert "stalled" not in failed.cause


def test_worn_replicas_are_replaced_one_at_a_time_and_somebody_always_serves(world):
    deployment = world.wants(wanted=2)
    for generation in (1, 2):
        world.until_state("ready", generation=generation)
    Deployment.objects.filter(pk=deployment.pk).update(recycle={"calls": 100})
    Replica.objects.update(calls=100)
    for generation in (1, 2):
        ended = world.until_state("stopped", generation=generation)
        assert Replica.objects.filter(state=ReplicaState.READY).count() == 2
        drained = StateChange.objects.get(replica=ended, new=ReplicaState.DRAINING)
        assert drained.reason == "is replaced anew: it has served 100 calls of 100"
    assert set(Replica.objects.filter(state="ready").values_list("generation", flat=True)) == {3, 4}


def test_a_drain_says_what_it_waits_for_and_ends_at_its_deadline(world):
    world.wants()
    replica = world.until_state("ready")
    Deployment.objects.update(replicas_wanted=0)
    world.until_state("draining")
    told = world.until(lambda: Replica.objects.get(pk=replica.pk).phase, "no phase")
    assert told.startswith("drains: ")
    ended = world.until_state("stopped")
    assert ended.drain_by > timezone.now()
