"""A call that ended is gone: what only the collector finds is memory for as long as it waits."""

import asyncio
import contextlib
import gc
import json
from collections import Counter

import pytest

from tests.gateway.place import chat, head_of
from tests.gateway.upstream import answered, streamed

CALLS, HANG_SECONDS = 5, 30
OF_CONNECTIONS = ("server", "client", "pool", "heads", "proof")  # theirs to keep, not a call's


@contextlib.contextmanager
def left_to_the_collector(but=OF_CONNECTIONS):
    """Objects of ours, by type, that were made meanwhile: other tests leave some too."""
    found = Counter()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(
            kind
            for kind in map(type, gc.garbage)
            if kind.__module__.startswith("control.gateway.")
            and kind.__module__.rpartition(".")[2] not in but
        )
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()


async def ask(reader, writer, body, end):
    text = json.dumps(body).encode()
    writer.write(head_of(len(text)) + text)
    got = b""
    async with asyncio.timeout(HANG_SECONDS):
        while not got.endswith(end):
            got += await reader.read(65536)
    assert got.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("script", "members", "end"),
    [
        (answered("fine", 7, 3), {}, b"}"),
        (answered("fine", 7, 3), {"n": 2}, b"}"),
        (streamed("a", "b", "c"), {"stream": True}, b"0\r\n\r\n"),
    ],
)
async def test_a_call_that_ended_is_gone(place, engines, script, members, end):
    await engines(script)
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    await ask(reader, writer, chat(**members), end)
    await place.until(lambda: not place.shared.calls)
    place.sweeping.cancel()  # how many sweeps there are is a matter of how fast this goes
    with left_to_the_collector() as found:
        for _ in range(CALLS):
            await ask(reader, writer, chat(**members), end)
        await place.until(lambda: not place.shared.calls)
    writer.close()
    assert not [kind for kind, count in found.items() if count >= CALLS]


async def test_a_connection_that_ended_is_gone(place, engines):
    """Crowds of them come and go; what each leaves would stay until the collector looks."""
    await engines(answered("fine", 7, 3))
    with left_to_the_collector(but=()) as found:
        for _ in range(CALLS):
            reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
            await ask(reader, writer, chat(), b"}")
            writer.close()
            await place.until(lambda: not place.listener.connections)
        [live] = place.shared.replicas.all()
        place.know_replicas()
        await place.until(lambda: not live.pool.open)
        await asyncio.sleep(0)
    assert not {kind.__name__ for kind in found} & {"Connection", "Upstream"}
