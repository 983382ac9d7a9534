"""A call on the short way, held where a test wants it."""

import asyncio

from control.gateway.express.call import ExpressCall
from tests.gateway.place import chat
from tests.gateway.upstream import answered


async def held(place, engines, **script) -> tuple:
    """One whose engine says nothing yet."""
    gate = asyncio.Event()
    engine = await engines(answered(hold=gate, **script))
    asking = asyncio.ensure_future(place.post(chat()))
    await place.until(lambda: len(engine.seen) == 1)
    [call] = place.shared.calls
    assert type(call) is ExpressCall
    return call, asking, gate
