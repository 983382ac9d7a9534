"""Live samples end by themselves, series are capped, points outlast both."""

from datetime import UTC, datetime, timedelta

import pytest
import redis
from channels.layers import get_channel_layer

from control.models import Point
from control.telemetry import store as store_module
from control.telemetry.messages import GatewaySample, ReplicaSample
from control.telemetry.points import prune, roll_up
from control.telemetry.publish import Publisher
from control.telemetry.store import Store
from tests.threads import Threads


def a_sample(at: float, replica_id: int = 7, **changes) -> ReplicaSample:
    return ReplicaSample(at, replica_id, f"gemma#{replica_id}", **changes)


@pytest.fixture
def store(valkey) -> Store:
    made = Store()
    yield made
    made.close()


@pytest.fixture
def server_seconds(valkey) -> float:
    seconds, micros = valkey.time()
    return seconds + micros / 1e6


def test_the_latest_of_many_comes_with_one_question(store, valkey, server_seconds):
    gateway = GatewaySample(server_seconds, "host-1-0-5", in_flight=3)
    store.put([a_sample(server_seconds, 7), a_sample(server_seconds, 8), gateway])
    latest = store.latest(["replica:7", "replica:9", "gateway:host-1-0-5"])
    assert latest == {"replica:7": a_sample(server_seconds, 7), "gateway:host-1-0-5": gateway}
    assert 0 < valkey.ttl("live:replica:7") <= 5
    assert store.subjects("replica") == ["replica:7", "replica:8"]
    assert store.latest([]) == {}


def test_a_series_keeps_the_newest_and_ends_by_itself(store, valkey, server_seconds, monkeypatch):
    monkeypatch.setattr(store_module, "SERIES_SAMPLES_MAX", 3)
    for back in range(5, 0, -1):
        store.put([a_sample(server_seconds - back * 0.1, running=back)])
    series = store.series(["replica:7", "replica:9"], server_seconds - 0.25)
    assert [sample.running for sample in series["replica:7"]] == [2, 1]
    assert series["replica:9"] == []
    assert valkey.xlen("series:replica:7") == 3
    assert valkey.ttl("series:replica:7") > 900


def test_a_series_without_an_end_gets_one_within_a_minute(store, valkey, server_seconds):
    """Valkey may have come back empty, or the command was lost."""
    store.put([a_sample(server_seconds)])
    valkey.persist("series:replica:7")
    store.put([a_sample(server_seconds + 59)])
    assert valkey.ttl("series:replica:7") == -1
    store.put([a_sample(server_seconds + 60)])
    assert valkey.ttl("series:replica:7") > 900


def test_what_is_no_sample_is_passed_over(store, valkey):
    valkey.set("live:replica:7", "{broken")
    valkey.set("live:replica:8", "[]")
    assert store.latest(["replica:7", "replica:8"]) == {}


@pytest.mark.asyncio
async def test_watchers_get_samples_with_rising_numbers(valkey):
    layer = get_channel_layer()
    name = await layer.new_channel()
    await layer.group_add("live", name)
    publisher = Publisher()
    await publisher._send([a_sample(1.0, 7), a_sample(1.0, 8)])
    await publisher._send([a_sample(2.0, 7)])
    one, two = await layer.receive(name), await layer.receive(name)
    assert (one["type"], one["seq"], two["seq"]) == ("live.samples", 1, 2)
    assert [sample["subject"] for sample in one["samples"]] == ["replica:7", "replica:8"]


def test_sharing_stores_and_sends_from_any_thread_over_one_connection(store, server_seconds):
    publisher = Publisher(store)
    with Threads(4) as pool:
        shared = pool.map(publisher.share, [[a_sample(server_seconds, n)] for n in range(8)])
    assert all(shared)
    assert len(store.latest([f"replica:{n}" for n in range(8)])) == 8
    publisher.close()


def test_what_is_kept_goes_out_together_the_last_of_each(store, server_seconds):
    publisher = Publisher(store)
    publisher.later([a_sample(server_seconds, 7, running=1), a_sample(server_seconds, 8)])
    publisher.later([a_sample(server_seconds, 7, running=2)])
    assert store.latest(["replica:7"]) == {}
    assert publisher.flush()
    found = store.latest(["replica:7", "replica:8"])
    assert {name: sample.running for name, sample in found.items()} == {
        "replica:7": 2,
        "replica:8": 0,
    }
    publisher.close()


def test_measuring_goes_on_without_valkey():
    away = Store(redis.Redis(port=1, socket_connect_timeout=0.2))
    assert not Publisher(away).share([a_sample(1.0)])


def test_points_are_written_once_for_windows_that_have_ended(store, db, server_seconds):
    start = int(server_seconds // 60) * 60
    store.put([a_sample(start - 20 + second, running=second) for second in range(25)])
    at = datetime.fromtimestamp(start + 5, UTC)
    roll_up(store, at)
    roll_up(store, at)
    found = [
        (
            point.resolution_seconds,
            point.at.timestamp() - start,
            point.values["running"],
            point.values["running_max"],
        )
        for point in Point.objects.filter(subject="replica:7").order_by("resolution_seconds", "at")
    ]
    assert found == [(10, -20, 4.5, 9), (10, -10, 14.5, 19), (60, -60, 9.5, 19)]


def test_points_go_after_their_time(db):
    at = datetime(2026, 11, 20, tzinfo=UTC)
    for resolution, age in ((10, 23), (10, 25), (60, 25), (60, 24 * 31)):
        Point.objects.create(
            subject="replica:7",
            resolution_seconds=resolution,
            at=at - timedelta(hours=age),
            values={},
        )
    assert prune(at) == 2
    assert Point.objects.count() == 2
