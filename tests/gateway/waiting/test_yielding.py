"""Batch that runs makes room for interactive calls that have waited for long."""

import asyncio

import pytest

from control.gateway.waiting import rules, yielding
from control.gateway.waiting.yielding import Stay
from tests.gateway.place import chat
from tests.gateway.upstream import answered, chunk, streamed
from tests.gateway.waiting.test_calls import URGENT, busy, waits
from tests.gateway.waiting.test_queue import Room

INTERACTIVE, STANDARD, BATCH = rules.ORDER


@pytest.mark.parametrize(("now", "urgent"), [(104.9, False), (105.0, True), (120.0, True)])
def test_a_call_is_urgent_after_half_of_its_limit(now, urgent):
    assert yielding.is_urgent(Stay(100.0, 110.0), now) is urgent


@pytest.mark.parametrize(
    ("urgent", "running", "who"),
    [
        (0, [("a", True)], []),
        (1, [], []),
        (1, [("a", True), ("b", True)], ["b"]),
        (1, [("a", True), ("b", False)], ["a"]),
        (3, [("a", True), ("b", False), ("c", True)], ["c", "a"]),
    ],
)
def test_the_youngest_that_may_yield_first(urgent, running, who):
    assert yielding.who_yields(urgent, running) == who


def test_who_yields_waits_again_first_of_its_tenants_and_not_for_ever():
    room = Room(slots=2)
    running = [room.join(f"bulk {n}", BATCH) for n in range(2)]
    room.waiting.advance()
    room.join("bulk 2", BATCH)
    urgent = room.join("urgent 0", INTERACTIVE)
    room.now += 4
    room.waiting.sweep(room.now)
    assert room.went == ["bulk 0", "bulk 1"]
    room.now += 1
    room.waiting.sweep(room.now)
    assert room.went == ["bulk 0", "urgent 0"]
    assert room.free(2) == ["bulk 1", "bulk 2"]
    for n in (1, 2, 3):
        room.join(f"urgent {n}", INTERACTIVE)
    for _ in range(4):
        room.now += 5
        room.waiting.sweep(room.now)
    assert max(call.yields for call in running) <= 2
    assert urgent.end == ""


async def test_a_batch_call_yields_twice_at_most_and_loses_nothing_of_its_tenants(tmp_path):
    async with busy(tmp_path, slots=0) as place:
        place.engine.scripts[0].hold = hold = asyncio.Event()
        place.know_replicas(place.info(slots=1))
        bulk = asyncio.create_task(place.post(chat("bulk", service_tier="flex")))
        await place.until(lambda: len(place.engine.seen) == 1)
        for n in (1, 2):
            urgent = await waits(place, f"urgent {n}", key=URGENT)
            place.push(6)
            await place.until(lambda n=n: len(place.engine.seen) == 2 * n)
            await asyncio.wait_for(place.engine.seen[2 * n - 2].closed.wait(), 30)
            assert len(place.shared.waiting) == 1
            place.engine.scripts = [answered("fine", 7, 3, hold=asyncio.Event())]
            hold.set()
            assert (await urgent).status == 200
            await place.until(lambda n=n: len(place.engine.seen) == 2 * n + 1)
            hold = place.engine.scripts[0].hold
        last = await waits(place, "urgent 3", key=URGENT)
        place.push(6)
        assert len(place.shared.waiting) == 1
        hold.set()
        assert (await bulk).status == 200
        assert (await last).status == 200
        [closed] = [record for record in place.closes() if record.priority == "batch"]
        assert (closed.attempts, closed.outcome) == (3, "complete")
        assert (closed.input_tokens, closed.output_tokens) == (7, 3)
        assert [one.priority for one in place.opens()].count("batch") == 1
        lost = place.shared.tally.counters
        batch = [n for n in lost if n.startswith("attempts_total") and 'priority="batch"' in n]
        assert [lost[name] for name in batch] == [3]
        assert lost['lost_tokens_total{reason="requeued",token_class="input"}'] > 0


async def test_a_batch_stream_whose_tokens_were_received_is_not_taken_back(tmp_path):
    async with busy(tmp_path, slots=0) as place:
        gate = asyncio.Semaphore(1)
        script = streamed("a", "b", gate=gate)
        script.split = len(chunk(role=True)) + len(chunk("a", usage=(7, 1)))
        place.engine.scripts = [script, answered()]
        place.know_replicas(place.info(slots=1))
        async with place.stream(chat("bulk", stream=True, service_tier="flex")) as bulk:
            await bulk.until(b'"a"')
            urgent = await waits(place, "urgent", key=URGENT)
            place.push(6)
            assert len(place.shared.waiting) == 1
            for _ in range(20):
                gate.release()
            await bulk.until(b"[DONE]")
            assert (await urgent).status == 200


async def test_a_batch_call_that_yielded_and_then_waits_in_vain_used_nothing(tmp_path):
    async with busy(tmp_path, slots=0) as place:
        place.know_replicas(place.info(slots=1))
        bulk = asyncio.create_task(place.post(chat("bulk", service_tier="flex")))
        await place.until(lambda: len(place.engine.seen) == 1)
        urgent = await waits(place, "urgent", key=URGENT)
        place.push(6)
        await place.until(lambda: len(place.engine.seen) == 2)
        place.push(11)
        refused = await bulk
        assert (refused.status, refused.error["code"]) == (503, "server_is_overloaded")
        [closed] = place.closes()
        assert (closed.input_tokens, closed.output_tokens, closed.attempts) == (0, 0, 1)
        place.go_on.set()
        assert (await urgent).status == 200
