"""Calls that wait for room in an engine's cache, though slots are free: over real sockets."""

import asyncio

from tests.gateway.place import Place, chat, replica, route
from tests.gateway.upstream import Upstream, answered, chunk, streamed
from tests.gateway.waiting.test_calls import waits

LONG = "x" * 2000  # 740 tokens by our estimate


async def test_a_call_waits_until_its_tokens_fit(tmp_path):
    engine = Upstream(answered(hold=asyncio.Event()))
    async with Place(tmp_path) as place:
        place.know_replicas(replica(1, await engine.start(), kv_tokens=2000))
        place.calls = [asyncio.create_task(place.post(chat(LONG, max_tokens=900)))]
        await place.until(lambda: engine.seen)
        await waits(place, LONG, max_tokens=900)  # 2 x 1640 of 1800
        small = await waits(place, "short", max_tokens=10)  # behind it, though it would fit
        assert len(engine.seen) == 1
        engine.scripts[0].hold.set()
        assert [answer.status for answer in await asyncio.gather(*place.calls)] == [200] * 3
        assert small.done()
        await place.until(lambda: not place.shared.calls)
        assert place.shared.replicas._live[1].room.held == 0
        await engine.stop()


async def test_a_call_larger_than_the_whole_cache_runs_alone(tmp_path):
    engine = Upstream(answered(hold=asyncio.Event()))
    async with Place(tmp_path) as place:
        place.know(route())
        place.know_replicas(replica(1, await engine.start(), kv_tokens=500))
        place.calls = [asyncio.create_task(place.post(chat(LONG, max_tokens=900)))]
        await place.until(lambda: engine.seen)
        await waits(place, "short", max_tokens=10)
        assert len(engine.seen) == 1
        engine.scripts[0].hold.set()
        assert {answer.status for answer in await asyncio.gather(*place.calls)} == {200}
        await engine.stop()


async def test_what_a_stream_holds_is_what_came_and_what_is_expected(place, engines):
    gate = asyncio.Semaphore(0)
    script = streamed("a", "b", gate=gate)
    script.split = len(chunk(role=True)) + len(chunk("a", usage=(7, 1)))
    await engines(script, kv_tokens=5000)
    call = asyncio.create_task(place.post(chat(LONG, stream=True, max_tokens=900)))
    room = place.shared.replicas._live[1].room
    await place.until(lambda: room.held > 1600)  # the estimate of the text
    gate.release()
    await place.until(lambda: room.held == 7 + 900)  # the engine has counted the prompt
    for _ in range(20):
        gate.release()
    assert (await call).status == 200
    assert room.held == 0
