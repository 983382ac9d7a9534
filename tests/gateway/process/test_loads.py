"""What autoscaling hears of a deployment: who waits, who runs, and since when."""

import asyncio

from control.gateway.process.loads import loads
from control.telemetry.messages import DeploymentLoad
from tests.gateway.place import chat, route, target
from tests.gateway.waiting.test_calls import URGENT, busy, waits


async def test_calls_that_wait_and_run_are_told_batch_apart(tmp_path):
    async with busy(tmp_path, slots=1) as place:
        await waits(place, "usual")
        await waits(place, "bulk", service_tier="flex")
        place.push(2)
        place.calls.append(asyncio.create_task(place.post(chat("urgent"), key=URGENT)))
        await place.until(lambda: len(place.shared.waiting) == 3)
        shared = place.shared
        told = loads(shared.replicas, shared.waiting, shared.clock.now())
        assert told["d"].oldest_seconds >= 2
        assert told == {"d": DeploymentLoad(2, 1, 1, 0, told["d"].oldest_seconds)}


async def test_a_call_that_waits_for_any_of_two_counts_half_for_each(tmp_path):
    async with busy(tmp_path, slots=1) as place:
        place.know(route("two", target("d"), target("other")))
        body = chat("usual") | {"model": "two"}
        place.calls.append(asyncio.create_task(place.post(body)))
        await place.until(lambda: len(place.shared.waiting) == 1)
        told = loads(place.shared.replicas, place.shared.waiting, 0.0)
        assert (told["d"].waiting, told["other"].waiting) == (0.5, 0.5)


async def test_nothing_to_do_is_not_told(tmp_path):
    async with busy(tmp_path, slots=0) as place:
        assert loads(place.shared.replicas, place.shared.waiting, 0.0) == {}
