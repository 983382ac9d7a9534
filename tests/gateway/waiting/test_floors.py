"""Slots that the less urgent leave to the urgent, over real sockets."""

import asyncio

from tests.gateway.place import chat, replica
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
