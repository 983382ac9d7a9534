"""What becomes of running calls when a key may no more."""

import asyncio

from tests.gateway.place import chat, route
from tests.gateway.upstream import answered, streamed


async def test_running_calls_of_a_revoked_key_end_normally(place, engines):
    gate, hold = asyncio.Semaphore(2), asyncio.Event()
    engine = await engines(streamed("a", "b", "c", split="frame", gate=gate))
    async with place.stream(chat(stream=True)) as stream:
        await stream.until(b'"a"')
        engine.scripts = [answered(hold=hold)]
        whole = asyncio.create_task(place.post(chat()))
        await place.until(lambda: len(engine.seen) == 2)
        place.identities = {}
        place.know(route())
        assert (await place.post(chat())).status == 401
        for _ in range(20):
            gate.release()
        got = await stream.until(b"[DONE]")
        assert b'"c"' in got
        assert b"error" not in got
        hold.set()
        assert (await whole).status == 200
    await place.until(lambda: len(place.closes()) == 2)
    assert {closed.outcome for closed in place.closes()} == {"complete"}
