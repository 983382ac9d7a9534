"""Two gateway processes before one engine: slots go to where calls are, and come back."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.asyncio as redis
from django.conf import settings

from tests.gateway.place import Place, chat, replica
from tests.gateway.upstream import Upstream, answered

SLOTS = 4


@pytest.fixture
async def pair(tmp_path) -> AsyncIterator[list[Place]]:
    """Two processes' worth of gateway, and an engine that answers nobody until it is told."""
    url = settings.REDIS_LIVE_URL
    engine = Upstream(answered(hold=asyncio.Event()))
    port = await engine.start()
    async with (
        Place(tmp_path / "1", redis_url=url, processes=2) as first,
        Place(tmp_path / "2", redis_url=url, processes=2) as second,
    ):
        for place in (first, second):
            await place.until(lambda place=place: place.shared.counters.shared)
            place.engine, place.calls = engine, []
            place.know_replicas(replica(77, port, slots=SLOTS))
            place.live = place.shared.replicas._live[77]
            await place.until(lambda place=place: place.live.slots == SLOTS // 2)
        yield [first, second]
        engine.scripts[0].hold.set()
        await asyncio.gather(*first.calls, *second.calls)
    await engine.stop()


def call(place: Place, count: int) -> None:
    place.calls += [asyncio.create_task(place.post(chat())) for _ in range(count)]


async def test_a_busy_process_gets_the_slots_that_an_idle_one_does_not_use(pair):
    busy, idle = pair
    call(busy, SLOTS + 2)
    await busy.until(lambda: len(busy.engine.seen) == SLOTS)
    assert busy.live.in_flight == SLOTS
    await busy.until(lambda: idle.live.slots == 0)
    assert len(busy.shared.waiting) == 2


async def test_who_took_more_returns_it_as_its_calls_end(pair):
    busy, other = pair
    call(busy, 3 * SLOTS)
    await busy.until(lambda: busy.live.in_flight == SLOTS)
    call(other, SLOTS)
    await other.until(lambda: len(other.shared.waiting) == SLOTS)
    await busy.until(lambda: busy.live.slots == SLOTS // 2)
    assert other.live.in_flight == 0
    hold = busy.engine.scripts[0].hold
    busy.engine.scripts = [answered(hold=asyncio.Event())]
    hold.set()  # those that run, end
    await other.until(lambda: other.live.in_flight == SLOTS // 2)
    assert busy.live.in_flight == SLOTS // 2
    assert busy.engine.connections <= SLOTS + 2


async def test_an_idle_process_takes_what_it_needs_again(pair):
    first, second = pair
    call(first, SLOTS + 1)
    await first.until(lambda: second.live.slots == 0)
    first.engine.scripts[0].hold.set()
    await asyncio.gather(*first.calls)
    assert (await second.post(chat())).status == 200
    for place in pair:
        await place.until(lambda place=place: place.live.slots == SLOTS // 2)


async def test_leases_of_one_that_ends_are_free_at_once(pair):
    client = redis.Redis.from_url(settings.REDIS_LIVE_URL)
    first, second = pair
    assert len(await client.hgetall("slots:77:1")) == 2
    second.shared.slots.close()
    await asyncio.sleep(0)
    call(first, SLOTS)
    await first.until(lambda: first.live.in_flight == SLOTS)
    assert 0 < await client.pttl("slots:77:1") <= 10_000
    await client.aclose()


async def test_without_valkey_each_process_has_its_even_share(tmp_path):
    async with Place(tmp_path, processes=3) as place:
        place.know_replicas(replica(1, 1, slots=8), replica(2, 2, slots=2))
        assert [live.slots for live in place.shared.replicas.all()] == [2, 1]


async def test_a_lost_valkey_means_the_even_share_again(pair):
    busy, idle = pair
    call(busy, SLOTS + 2)
    await busy.until(lambda: idle.live.slots == 0)
    for place in pair:
        place.shared.counters.close()
        place.shared.slots.sweep(place.time.now())
    assert [place.live.slots for place in pair] == [SLOTS // 2] * 2


async def test_one_process_alone_asks_nobody(tmp_path):
    async with Place(tmp_path, redis_url=settings.REDIS_LIVE_URL) as place:
        await place.until(lambda: place.shared.counters.shared)
        place.know_replicas(replica(78, 1, slots=8))
        place.push(1)
        assert place.shared.replicas._live[78].slots == 8
        client = redis.Redis.from_url(settings.REDIS_LIVE_URL)
        assert not await client.exists("slots:78:1")
        await client.aclose()
