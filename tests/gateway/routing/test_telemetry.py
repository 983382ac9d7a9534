"""What engines say of themselves reaches the choice, while it is fresh."""

import asyncio
import time

import pytest
from django.conf import settings

from control.gateway.routing.candidates import EngineLoad
from control.gateway.routing.room import share_after, usable_tokens
from control.telemetry.messages import ReplicaSample
from control.telemetry.store import Store
from tests.gateway.place import Place, chat, replica
from tests.gateway.upstream import Upstream, answered


def says(id_: int, *, age: float = 0.0, **values) -> None:
    store = Store()
    store.put([ReplicaSample(time.time() - age, id_, f"d#{id_}", **values)])
    store.close()


@pytest.fixture
async def place(tmp_path):
    async with Place(tmp_path, redis_url=settings.REDIS_LIVE_URL) as place:
        await place.until(lambda: place.shared.counters.shared)
        yield place


async def test_calls_go_where_the_engine_has_less_to_do(place):
    busy, idle = Upstream(answered()), Upstream(answered())
    place.know_replicas(replica(1, await busy.start()), replica(2, await idle.start()))
    says(1, running=60, waiting=4, kv_cache_ratio=0.9)
    says(2, running=1)
    live = place.shared.replicas._live
    await place.until(lambda: live[1].engine and live[2].engine)
    for _ in range(6):
        assert (await place.post(chat())).status == 200
    assert (len(busy.seen), len(idle.seen)) == (0, 6)
    await busy.stop()
    await idle.stop()


async def test_old_figures_are_not_taken_and_those_of_strangers_do_not_hurt(place, valkey):
    place.know_replicas(replica(1, 1), replica(2, 2), replica(3, 3))
    says(1, age=3.5, running=60)
    valkey.set("live:replica:2", "not JSON")
    says(3, running=5)
    live = place.shared.replicas._live
    await place.until(lambda: live[3].engine)
    assert live[1].engine is live[2].engine is None
    assert live[3].engine[:3] == (5, 0, 0.0)


async def test_calls_sent_since_then_are_known(place):
    place.know_replicas(replica(1, 1))
    live = place.shared.replicas._live[1]
    now = place.time.now()
    live.in_flight = 2
    live.mark(now - 2)
    live.in_flight = 5
    live.mark(now - 0.5)
    assert [live.in_flight_at(now - at) for at in (3, 1, 0)] == [0, 2, 5]
    live.engine = EngineLoad(2, 0, 0.0, now - 1, live.in_flight_at(now - 1))
    assert live.load(now) == 5 / 64  # two it had counted, three are on their way


async def test_a_stalled_engine_is_left_with_its_calls(tmp_path):
    stuck, fine = Upstream(answered(hold=asyncio.Event())), Upstream(answered("fine"))
    async with Place(tmp_path) as place:
        place.know_replicas(replica(1, await stuck.start()))
        call = asyncio.create_task(place.post(chat()))
        await place.until(lambda: stuck.seen)
        place.know_replicas(replica(1, stuck.port), replica(2, await fine.start()))
        live, rotation = place.shared.replicas._live[1], place.shared.replicas.rotation
        for _ in range(40):
            place.time.pushed_seconds += 1
            said = ReplicaSample(
                replica_id=1, label="d#1", at=place.time.wall(), running=1, kv_cache_ratio=0.5
            )
            rotation.heard(live, said, place.time.now())
        assert live.health.out == "stalled"
        answer = await call
        assert (answer.status, answer.json()["choices"][0]["message"]["content"]) == (200, "fine")
        await asyncio.wait_for(stuck.seen[0].closed.wait(), 30)
        await stuck.stop()
        await fine.stop()


async def test_an_engine_that_preempts_is_given_less_once_for_each_sample(place):
    place.know_replicas(replica(1, 1, kv_tokens=1000))
    live = place.shared.replicas._live[1]
    says(1, preemptions_per_second=2.0)
    await place.until(lambda: live.engine)
    assert live.room._usable == usable_tokens(1000, share_after(1.0, preempted=True))
