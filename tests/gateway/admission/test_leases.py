"""Calls at once over two gateways: however a call ends, its slot comes back."""

import asyncio

import pytest

from tests.gateway.place import chat, route
from tests.gateway.upstream import Script, answered, chunk, error

FIRST = chunk(role=True) + chunk("a", usage=(7, 1))
ENDS = {
    "left in mid stream": Script(FIRST, end="hold"),
    "left before the first token": None,
    "refused by the engine": error(502),
    "reset by the engine": Script(head=False, end="rst"),
    "silent until the time is up": None,
}


@pytest.mark.parametrize("what", ENDS)
async def test_r01_slots_come_back_for_all_gateways(gateways, engine, valkey, what):
    for place in gateways:
        place.know(route(), scopes={"k:9": {"concurrent_calls": 5}})
    for number in range(20):
        place = gateways[number % 2]
        engine.scripts = [ENDS[what] or answered(hold=asyncio.Event())]
        seen = len(engine.seen)
        async with place.stream(chat(stream=True)) as stream:
            await place.until(lambda seen=seen: len(engine.seen) > seen)
            if what == "left in mid stream":
                await stream.until(b'"a"')
            elif what == "silent until the time is up":
                place.push(61)
                await stream.until(b"upstream_timeout")
            elif what != "left before the first token":
                await stream.until(b'"error"')
        await place.until(lambda place=place: not place.shared.calls)
        engine.scripts = [answered("a probe keeps the key busy")]
        await all_well(place)
        assert (await gateways[1 - number % 2].post(chat())).status == 200
    for number in range(10):  # it takes more at once as calls go well
        assert (await gateways[number % 2].post(chat())).status == 200
    await five_and_no_more(gateways, engine)
    await gateways[0].until(lambda: not valkey.exists("calls:k:9"))


async def all_well(place) -> None:
    """A replica that failed again and again is probed more and more seldom."""
    async with asyncio.timeout(30):
        while place.shared.replicas.ejected() or not place.shared.counters.shared:
            place.push(3)
            await asyncio.sleep(0.05)


async def five_and_no_more(gateways, engine) -> None:
    hold = asyncio.Event()
    engine.scripts = [answered(hold=hold)]
    before = len(engine.seen)
    five = [asyncio.create_task(gateways[n % 2].post(chat())) for n in range(5)]
    await gateways[0].until(lambda: len(engine.seen) == before + 5)
    sixth = await gateways[1].post(chat())
    hold.set()
    assert [answer.status for answer in await asyncio.gather(*five)] == [200] * 5
    assert (sixth.status, sixth.error["code"]) == (429, "concurrency_limit_exceeded")
