"""From figures in Valkey to another size in the tables."""

from datetime import UTC, datetime, timedelta

import pytest
import redis
from django.conf import settings

from control.autoscaling import actions
from control.models import AuditEntry, Deployment, ScalingState
from control.states import ReplicaState
from control.telemetry.messages import GatewaySample, ReplicaSample
from control.telemetry.store import Store
from tests.fleet.rows import a_deployment, a_replica, a_version

pytestmark = pytest.mark.django_db
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def store():
    client = redis.Redis.from_url(settings.REDIS_LIVE_URL)
    client.flushdb()
    store = Store(client)
    yield store
    client.flushdb()
    store.close()


def hear(store: Store, at: datetime, **loads: dict) -> None:
    store.put([GatewaySample(at=at.timestamp(), owner="gw", loads=loads)])


def size_of(deployment) -> int:
    return Deployment.objects.get(pk=deployment.pk).replicas_wanted


def test_calls_that_wait_change_what_is_wanted_and_are_the_reason(store):
    deployment = a_deployment(replicas_max=4)
    a_replica(deployment, at=AT, slots=4)
    hear(store, AT, d={"waiting": 20.0, "oldest_seconds": 1.0, "running": 4})
    assert actions.tick(AT, store) == [("d", 3, "20 calls wait, 8 for each replica")]
    assert size_of(deployment) == 3
    assert AuditEntry.objects.get(by="autoscaling").reason.startswith("20 calls wait")
    assert ScalingState.objects.get().reason.startswith("20 calls wait")
    assert not actions.tick(AT + timedelta(seconds=1), store)


def test_a_model_at_zero_is_started_by_its_first_call(store):
    deployment = a_deployment(wanted=0, replicas_min=0, replicas_max=4)
    hear(store, AT)
    assert not actions.tick(AT, store)
    store._client.set("demand:d", 1)
    assert actions.tick(AT, store) == [("d", 1, "1 calls wait, and nothing serves them")]
    assert size_of(deployment) == 1


def test_what_is_in_use_is_the_mean_of_the_fullest_of_slots_and_cache(store):
    deployment = a_deployment(wanted=2, replicas_max=4)
    first = a_replica(deployment, at=AT, slots=10)
    second = a_replica(deployment, at=AT, slots=10, generation=2)
    hear(store, AT, d={"running": 8, "batch_running": 2})
    samples = [
        ReplicaSample(AT.timestamp(), first.pk, "d#1", running=6, kv_cache_ratio=0.9),
        ReplicaSample(AT.timestamp(), second.pk, "d#2", running=4, kv_cache_ratio=0.1),
    ]
    store.put(samples)
    actions.tick(AT, store)
    signs = ScalingState.objects.get().signs
    assert signs["use_ratio"] == pytest.approx((1.0 + 0.4) / 2)
    assert signs["urgent_ratio"] == pytest.approx(0.7 * 0.8)


@pytest.mark.parametrize(
    ("guarded_seconds", "ratio", "use"),
    [(None, 0.63, 0.7), (60, 0.63, 0.875), (-60, 0.63, 0.7), (60, 0.72, 1.0), (60, 0.9, 1.0)],
)
def test_the_cache_is_full_where_gateways_give_no_more_of_it(store, guarded_seconds, ratio, use):
    """Nine tenths of it, and a fifth less while the deployment is guarded."""
    until = guarded_seconds and AT + timedelta(seconds=guarded_seconds)
    deployment = a_deployment(wanted=1, replicas_max=4, guarded_until=until)
    replica = a_replica(deployment, at=AT, slots=10)
    hear(store, AT, d={"running": 1})
    store.put([ReplicaSample(AT.timestamp(), replica.pk, "d#1", running=1, kv_cache_ratio=ratio)])
    actions.tick(AT, store)
    assert ScalingState.objects.get().signs["use_ratio"] == pytest.approx(use)


def test_a_silent_replica_may_be_the_busy_one(store):
    deployment = a_deployment(wanted=2, replicas_max=4)
    first = a_replica(deployment, at=AT, slots=10)
    a_replica(deployment, at=AT, slots=10, generation=2)
    hear(store, AT)
    store.put([ReplicaSample(AT.timestamp(), first.pk, "d#1")])
    actions.tick(AT, store)
    assert "use_ratio" not in ScalingState.objects.get().signs


def test_without_figures_nothing_changes(store):
    deployment = a_deployment(wanted=2, replicas_max=4)
    a_replica(deployment, at=AT)
    assert not actions.tick(AT, store)
    nowhere = Store(redis.Redis(port=1))
    assert not actions.tick(AT, nowhere)
    assert size_of(deployment) == 2


def test_after_another_version_it_does_not_shrink_at_once(store):
    deployment = a_deployment(wanted=2, replicas_max=4)
    for generation in (1, 2):
        replica = a_replica(deployment, at=AT, slots=10, generation=generation)
        store.put([ReplicaSample(AT.timestamp(), replica.pk, "d")])
    hear(store, AT)
    actions.tick(AT, store)
    ScalingState.objects.update(idle_since=AT - timedelta(hours=1))
    deployment.version = a_version(model="m-d", name="v2")
    deployment.save()
    assert not actions.tick(AT, store)
    assert ScalingState.objects.get().held_until == AT + timedelta(seconds=600)
    assert not actions.tick(AT + timedelta(seconds=599), store)
    assert actions.tick(AT + timedelta(seconds=600), store)


def test_fixed_sizes_and_what_is_on_its_way_are_left_alone(store):
    a_deployment("fixed", wanted=2, replicas_min=2, replicas_max=2)
    starting = a_deployment("starting", wanted=1, replicas_max=4)
    a_replica(starting, at=AT, state=ReplicaState.LOADING)
    hear(store, AT, starting={"waiting": 50.0})
    assert not actions.tick(AT, store)
    assert [state.deployment.name for state in ScalingState.objects.all()] == ["starting"]
