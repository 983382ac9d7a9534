"""Cases of the field about limits: holds that end once, and a Valkey that fails."""

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator

import msgspec
import pytest
from django.conf import settings

from control.gateway.admission.rules import Hold, Refused, checks_of
from tests.gateway.admission.test_counters import Clients, now
from tests.gateway.admission.test_token_limits import full_at
from tests.gateway.place import Place, chat, replica, route
from tests.gateway.upstream import Script, Upstream, answered, chunk

OUT = "output_tokens_per_minute"
HELD = {OUT: 6000, "concurrent_calls": 50}


def held(valkey, scope: str = "t:1") -> tuple[int, int]:
    """Tokens that the bucket is short of, and calls that run."""
    seconds, microseconds = valkey.time()
    ahead = full_at(valkey, OUT, scope) - seconds * 1_000_000 - microseconds
    leased = valkey.hvals(f"leased:calls:{scope}")
    assert not leased  # 50 are below what is leased
    return max(ahead, 0) * 6000 // 60_000_000, valkey.zcard(f"calls:{scope}")


async def settled(gateways) -> None:
    for place in gateways:
        await place.until(lambda place=place: not place.shared.calls)
        await place.until(lambda place=place: not place.shared.counters.valkey._waiting)


async def test_r03a_large_answers_asked_for_refuse_nobody_and_holds_clear(gateways, engine, valkey):
    """Ten calls with max_tokens 64k are held by what is expected of them, 200 each here."""
    for place in gateways:
        place.know(route(output_tokens_default=200), scopes={"t:1": {OUT: 6000}})
    engine.scripts[0] = answered("fine", 90, 200, hold=asyncio.Event())
    begun = now(valkey)
    calls = [asyncio.create_task(gateways[n % 2].post(chat(max_tokens=64_000))) for n in range(10)]
    await gateways[0].until(lambda: len(engine.seen) == 10)
    tokens, _ = held(valkey)
    assert 2000 - 100 * (now(valkey) - begun) - 1 <= tokens <= 2000  # a hundred a second refill
    engine.scripts[0].hold.set()
    assert [call.status for call in await asyncio.gather(*calls)] == [200] * 10
    await settled(gateways)
    assert held(valkey)[0] <= 2000  # what was used


async def test_r03b_calls_cancelled_in_mid_stream_hold_nothing(gateways, engine, valkey):
    for place in gateways:
        place.know(route(), scopes={"t:1": HELD})
    engine.scripts = [Script(chunk(role=True) + chunk("a", usage=(7, 1)), end="hold")]
    async with contextlib.AsyncExitStack() as stack:
        for number in range(20):
            body = chat(stream=True, max_tokens=100)
            stream = await stack.enter_async_context(gateways[number % 2].stream(body))
            await stream.until(b'"a"')
        tokens, calls = held(valkey)
        assert (calls, tokens > 1000) == (20, True)
    await settled(gateways)
    tokens, calls = held(valkey)
    assert (calls, tokens <= 20) == (0, True)  # the token that each had


async def test_r03c_a_failure_after_the_hold_gives_it_back(gateways, engine, valkey):
    """The disk is full: the call cannot be written down, and may not begin."""
    for place in gateways:
        place.know(route(), scopes={"t:1": HELD})

    def full(lines: list[bytes]) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    gateways[0].spool.append_lines = full
    answer = await gateways[0].post(chat(max_tokens=100))
    assert (answer.status, answer.error["code"]) == (503, "gateway_not_ready")
    await settled(gateways)
    assert held(valkey) == (0, 0)
    assert not engine.seen


async def test_r03d_a_killed_gateways_calls_hold_nothing_once_their_leases_end(valkey):
    clients = await Clients(settings.REDIS_LIVE_URL).connect()
    hold = Hold(checks_of("t:1", HELD), 0, 100)
    for number in range(5):
        await clients.hold(f"call_{number}", hold)
    assert held(valkey)[1] == 5
    clients.all[0].valkey.close()  # nothing is settled: as SIGKILL leaves it
    seconds, microseconds = valkey.time()
    for call_id in valkey.zrange("calls:t:1", 0, -1):
        ends = valkey.zscore("calls:t:1", call_id) - (seconds * 1_000_000 + microseconds)
        assert 0 < ends <= 10_000_000
        valkey.zadd("calls:t:1", {call_id: 1})  # as ten seconds without renewal leave it
    for number in range(50):
        answer = await clients.hold(f"other_{number}", Hold(hold.checks[1:]), by=1)
        assert not isinstance(answer, Refused)
    clients.close()


@pytest.fixture
async def three(tmp_path, own_valkey) -> AsyncIterator[list[Place]]:
    async with contextlib.AsyncExitStack() as stack:
        places = []
        for number in range(3):
            # A machine that stands still for a moment must not make Valkey look slow.
            shared = {"redis_url": own_valkey.url, "limits": {"counters_seconds": 600}}
            place = Place(tmp_path / str(number), processes=3, **shared)
            places.append(await stack.enter_async_context(place))
            await place.until(lambda place=place: place.shared.counters.shared)
        engine = Upstream(answered("fine", 90, 10))
        port = await engine.start()
        for place in places:
            place.know_replicas(replica(1, port))
            place.know(route(), scopes={"t:1": {"requests_per_minute": 3}})
        yield places
        await engine.stop()


async def ask(places: list[Place], count: int) -> int:
    """How many of so many calls are admitted, over all gateways."""
    answers = [await places[number % 3].post(chat()) for number in range(count)]
    for refused in (answer for answer in answers if answer.status != 200):
        assert refused.status == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 60
    return sum(answer.status == 200 for answer in answers)


async def counters_of(place: Place) -> str:
    return (await place.get("/ready")).json()["counters"]


async def away(places: list[Place], *, shared: bool) -> None:
    for place in places:
        await place.until(lambda place=place: place.shared.counters.shared == shared)
        assert await counters_of(place) == ("shared" if shared else "local")
        degraded = place.shared.counters.gauges()["counters_degraded"]
        assert degraded == int(not shared)


async def test_r05a_without_valkey_no_more_than_the_limit_once_more_is_admitted(three, own_valkey):
    """The slack: each of three gateways has a third of the limit, full when it is left alone.

    One refills in 20 s, which is more than this takes.
    """
    assert await ask(three, 6) == 3
    own_valkey.stop()
    await away(three, shared=False)
    assert await ask(three, 9) == 3
    own_valkey.start()
    await away(three, shared=True)
    assert await ask(three, 6) == 0  # it came back empty: what was asked before is not known


async def test_r05c_a_valkey_that_refuses_writes_is_as_good_as_away(three, own_valkey):
    assert await ask(three, 1) == 1
    own_valkey.client.execute_command("REPLICAOF", "127.0.0.1", "1")
    await away(three, shared=False)  # also of those that ask nothing
    for place in three:  # nor can slots of one that is launched meanwhile be shared out
        place.know_replicas(msgspec.structs.replace(place.shared.replicas._live[1].info, id=2))
    assert await ask(three, 9) == 3
    own_valkey.client.execute_command("REPLICAOF", "NO", "ONE")
    await away(three, shared=True)
    await settled(three)
    tat = int(own_valkey.client.get("rate:t:1:requests_per_minute") or 0)
    seconds, _ = own_valkey.client.time()
    assert 0 < tat - seconds * 1_000_000 <= 21_000_000  # one call: not negative, nor twice
    assert not own_valkey.client.keys("calls:*")
    assert await ask(three, 6) == 2
