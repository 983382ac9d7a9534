"""Slots that the less urgent leave to the urgent, over real sockets."""

import asyncio

from tests.gateway.place import chat, replica
from tests.gateway.upstream import answered, streamed
from tests.gateway.waiting.test_calls import URGENT, busy, served, waits


async def test_batch_leaves_a_floor_that_the_urgent_find(tmp_path):
    async with busy(tmp_path, slots=0) as place:
        place.know_replicas(replica(1, place.engine.port, slots=20))
        for n in range(18):
            place.calls.append(
                asyncio.create_task(place.post(chat(f"bulk {n}", service_tier="flex")))
            )
        await place.until(lambda: len(place.engine.seen) == 18)
        await waits(place, "bulk 18", service_tier="flex")
        for n in range(2):
            place.calls.append(asyncio.create_task(place.post(chat(f"urgent {n}"), key=URGENT)))
        await place.until(lambda: len(place.engine.seen) == 20)
        assert len(place.shared.waiting) == 1
        order = await served(place)
        assert set(order[18:20]) == {"urgent 0", "urgent 1"}
        assert order[20] == "bulk 18"


async def test_while_urgent_calls_come_they_find_a_slot_that_others_leave(tmp_path):
    async with busy(tmp_path, slots=0) as place:
        place.know_replicas(replica(1, place.engine.port, slots=16))
        [live] = place.shared.replicas.all()
        for n in range(14):
            place.calls.append(asyncio.create_task(place.post(chat(f"usual {n}"))))
        place.calls.append(asyncio.create_task(place.post(chat("urgent 0"), key=URGENT)))
        await place.until(lambda: len(place.engine.seen) == 15)
        live.keep_slots()
        await waits(place, "usual 14")
        place.calls.append(asyncio.create_task(place.post(chat("urgent 1"), key=URGENT)))
        await place.until(lambda: len(place.engine.seen) == 16)
        assert len(place.shared.waiting) == 1
        for _ in range(11):
            live.keep_slots()
        assert live.kept == 0  # none came for long
        await served(place)


async def test_batch_gets_less_while_interactive_streams_are_slow(tmp_path):
    gate = asyncio.Semaphore(2)  # the role, and a token
    async with busy(tmp_path, slots=0) as place:
        engine = place.engine
        place.sweeping.cancel()  # a second is a second here
        place.know_replicas(replica(1, engine.port, slots=10))
        later = engine.scripts
        engine.scripts = [streamed("a", "b", "c", split="frame", gate=gate)]
        async with place.stream(chat("urgent", stream=True), key=URGENT) as stream:
            await stream.until(b'"a"')
            for _ in range(8):
                place.push(1)  # and no token comes: slower than its objective of 0.1 s
            engine.scripts = later
            place.calls.append(asyncio.create_task(place.post(chat("bulk 0", service_tier="flex"))))
            await place.until(lambda: len(engine.seen) == 2)
            await waits(place, "bulk 1", service_tier="flex")  # though eight slots are free
            place.calls.append(asyncio.create_task(place.post(chat("usual"))))
            await place.until(lambda: len(engine.seen) == 3)
            for _ in range(20):
                gate.release()
            await stream.until(b"[DONE]")
        for _ in range(4):
            place.push(1)  # by steps of a twentieth
        await place.until(lambda: len(engine.seen) == 4)
        words = [one.body["messages"][0]["content"] for one in engine.seen]
        assert words == ["urgent", "bulk 0", "usual", "bulk 1"]
        engine.scripts = [answered()]
