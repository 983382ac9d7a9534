"""T03: one replica stops answering without closing anything."""

import asyncio

from tests.gateway.place import Place, chat, replica
from tests.gateway.upstream import Upstream, answered, streamed

CALLS = 200
LIMITS = {"probe_seconds": 0.5}


async def test_t03_a_stopped_replica_harms_no_other_and_comes_back(tmp_path):
    stuck, fine = Upstream(streamed("fine")), Upstream(streamed("fine"))
    async with Place(tmp_path, limits=LIMITS) as place:
        place.know_replicas(
            replica(1, await stuck.start(), slots=256), replica(2, await fine.start(), slots=256)
        )
        live = place.shared.replicas._live[1]
        for _ in range(8):
            await place.post(chat(stream=True))
        before = len(fine.seen)
        stuck.thaw.clear()
        calls = [asyncio.create_task(place.post(chat(stream=True))) for _ in range(CALLS)]
        # What went to the healthy one is answered while the others still wait for the stuck one.
        await place.until(lambda: sum(c.done() for c in calls) + live.in_flight == CALLS, 30)
        done = sum(call.done() for call in calls)
        assert 0 < live.in_flight < CALLS
        assert done == len(fine.seen) - before
        place.push(61)
        answers = await asyncio.wait_for(asyncio.gather(*calls), 30)  # the first-byte limit
        assert sum(answer.status == 200 for answer in answers) >= done
        assert {answer.status for answer in answers} <= {200, 502, 503, 504}
        assert live.health.out
        seen = len(stuck.seen)
        for _ in range(20):
            assert (await place.post(chat(stream=True))).status == 200
        assert len(stuck.seen) == seen  # none of them was sent there
        stuck.thaw.set()
        place.push(60)
        await place.until(lambda: place.shared.replicas.ejected() == 0)
        assert live.slots == 1  # slowly
        await place.until(lambda: not live.pool.finishing)
        place.push(10)  # idle ones are closed: what is left open would be a leak
        await place.until(lambda: not live.pool.open and stuck.connections == 0)
        assert live.in_flight == 0
        await stuck.stop()
        await fine.stop()


async def test_t03_pools_are_apart(tmp_path):
    """However many calls hang at one, the other has all of its connections."""
    stuck, fine = Upstream(answered(hold=asyncio.Event())), Upstream(answered())
    async with Place(tmp_path) as place:
        place.know_replicas(replica(1, await stuck.start(), slots=4))
        hanging = [asyncio.create_task(place.post(chat())) for _ in range(4)]
        await place.until(lambda: len(stuck.seen) == 4)
        place.know_replicas(
            replica(1, stuck.port, slots=4), replica(2, await fine.start(), slots=4)
        )
        answers = await asyncio.gather(*(place.post(chat()) for _ in range(40)))
        assert {answer.status for answer in answers} == {200}
        assert len(fine.seen) == 40
        for call in hanging:
            call.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        await stuck.stop()
        await fine.stop()
