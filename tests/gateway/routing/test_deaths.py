"""Engines that die: what they worked on is looked at, and a prompt of death is stopped."""

import asyncio
from dataclasses import dataclass

from django.conf import settings

from control.gateway.bodies.wire import Ask, parse
from control.gateway.routing.health import Cause
from control.gateway.routing.live import Live
from tests.gateway.place import Place, chat, replica
from tests.gateway.upstream import Script, Upstream, answered

DEATHS = 'engine_deaths_total{deployment="d"}'
PROMPTS = "deadly_prompts_total"
DIES = Script(head=False, end="rst")


def dying(*scripts: Script) -> Upstream:
    """An engine that has gone once it was asked."""
    upstream = Upstream(*(scripts or (DIES,)))
    upstream.health = 503
    return upstream


async def known(place: Place, *upstreams: Upstream) -> None:
    infos = [replica(n, await one.start()) for n, one in enumerate(upstreams, 1)]
    place.know_replicas(*infos)


async def test_a_prompt_of_death_is_tried_twice_and_then_by_nobody(tmp_path):
    holds = [asyncio.Event() for _ in range(3)]
    engines = [dying(Script(head=False, end="rst", hold=hold)) for hold in holds]
    async with Place(tmp_path, limits={"tries": 3}) as place:
        await known(place, *engines)
        counters = place.shared.tally.counters
        call = asyncio.create_task(place.post(chat("deadly")))
        for deaths in (1, 2):
            await place.until(lambda n=deaths: sum(len(engine.seen) for engine in engines) == n)
            for engine, hold in zip(engines, holds, strict=True):
                if engine.seen:
                    hold.set()
            await place.until(lambda n=deaths: counters.get(DEATHS) == n)
        answer = await call
        assert (answer.status, answer.error["code"]) == (502, "upstream_error")
        assert sum(len(engine.seen) for engine in engines) == 2  # never a third time
        await place.until(lambda: place.shared.deaths.condemned)
        refused = await place.post(chat("deadly"))
        assert (refused.status, refused.error["code"]) == (400, "prompt_refused")
        assert refused.headers["x-should-retry"] == "false"
        assert place.refusals()["prompt_refused"] == 1
        assert counters["deadly_prompts_total"] == 1
        assert counters[DEATHS] == 2
        for engine in engines:
            await engine.stop()


async def test_others_are_served_and_after_an_hour_it_is_forgiven(tmp_path):
    async with Place(tmp_path) as place:
        bad, worse, good = dying(), dying(), Upstream(answered("fine"))
        await known(place, bad, worse)
        await place.post(chat("deadly"))
        await place.until(lambda: place.shared.deaths.condemned)
        place.know_replicas(replica(3, await good.start()))
        assert (await place.post(chat("harmless"))).status == 200
        assert (await place.post(chat("deadly"))).status == 400
        place.push(3601)
        assert (await place.post(chat("deadly"))).status == 200
        for engine in (bad, worse, good):
            await engine.stop()


async def test_what_was_in_flight_at_one_death_is_served_by_another(tmp_path):
    hold = asyncio.Event()
    async with Place(tmp_path) as place:
        bad = dying(Script(head=False, end="rst", hold=hold))
        good = Upstream(answered("fine"))
        await known(place, bad, good)
        calls = [asyncio.create_task(place.post(chat(f"call {n}"))) for n in range(4)]
        await place.until(lambda: len(bad.seen) + len(good.seen) == 4)
        hold.set()
        assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
        await place.until(lambda: not place.shared.deaths._suspects)
        assert not place.shared.deaths.condemned
        await bad.stop()
        await good.stop()


async def test_a_prompt_that_both_engines_of_a_host_had_when_it_fell_is_still_accepted(tmp_path):
    hold = asyncio.Event()
    async with Place(tmp_path, limits={"tries": 1}) as place:
        engines = [dying(Script(head=False, end="rst", hold=hold)) for _ in range(2)]
        await known(place, *engines)
        calls = [asyncio.create_task(place.post(chat("harmless"))) for _ in engines]
        await place.until(lambda: all(engine.seen for engine in engines))
        hold.set()
        assert {answer.status for answer in await asyncio.gather(*calls)} == {502}
        await place.until(lambda: place.shared.tally.counters.get(DEATHS) == 2)
        assert not place.shared.deaths.condemned
        for engine in engines:
            await engine.stop()


async def test_a_broken_connection_of_a_living_engine_is_no_death(place, engines):
    for _ in range(2):
        await engines(DIES, DIES, answered("fine"))
    await place.post(chat("harmless"))
    await place.until(lambda: not place.shared.replicas.ejected())
    place.push(0)
    assert "engine_deaths_total" not in str(place.shared.tally.counters)
    assert not place.shared.deaths.condemned


@dataclass(eq=False)
class AtEngine:
    ask: Ask
    sent_at: float = 0.0

    def is_at_engine(self) -> bool:
        return True


@dataclass
class Lost:
    """A try whose engine was lost in this way."""

    live: Live
    cause: Cause
    sent_at: float = 0.0


async def test_what_lost_a_second_engine_is_neither_retried_nor_continued(place, engines):
    first, second = [await engines(answered()) for _ in range(2)]
    one, two = [place.shared.replicas._live[engine.info.id] for engine in (first, second)]
    deaths = place.shared.deaths
    asked = parse("completions", b'{"model":"m","prompt":"x"}', depth_max=9)
    now = place.shared.clock.now
    one.attempts.add(AtEngine(asked, now() - 1))
    deaths.suspected(one)
    assert deaths.spares(asked, Lost(two, Cause.BROKE))  # a connection may break as it likes
    one.health.out = Cause.DIED
    assert deaths.spares(asked, Lost(one, Cause.DIED))
    assert not deaths.spares(asked, Lost(two, Cause.BROKE))  # the first has said that it is dead
    deaths.judged(one, True)
    assert deaths.spares(asked, Lost(one, Cause.DIED))  # the same death
    assert not deaths.spares(asked, Lost(two, Cause.DIED, now() + 1))
    assert deaths.spares(asked, Lost(two, Cause.DIED, now() - 1))  # both died with their host
    assert deaths.spares(asked, Lost(two, Cause.ERROR))  # not a death at all
    another = parse("completions", b'{"model":"m","prompt":"y"}', depth_max=9)
    assert deaths.spares(another, Lost(two, Cause.DIED))
    one.attempts.clear()


async def test_processes_tell_each_other(tmp_path):
    async with (
        Place(tmp_path / "a", redis_url=settings.REDIS_LIVE_URL) as a,
        Place(tmp_path / "b", redis_url=settings.REDIS_LIVE_URL) as b,
    ):
        await a.until(lambda: a.shared.counters.shared and b.shared.counters.shared)
        bad, worse, good = dying(), dying(), Upstream(answered("fine"))
        await known(a, bad)
        await a.post(chat("deadly"))
        b.know_replicas(replica(2, await worse.start()))
        await b.post(chat("deadly"))
        await b.until(lambda: b.shared.deaths.condemned)
        await a.until(lambda: a.shared.deaths.condemned)
        counted = [place.shared.tally.counters for place in (a, b)]

        def sums() -> list[float]:
            return [sum(c.get(name, 0) for c in counted) for name in (DEATHS, PROMPTS)]

        await a.until(lambda: sums() == [2, 1])  # once each, though both know of all
        async with Place(tmp_path / "c", redis_url=settings.REDIS_LIVE_URL) as c:
            await c.until(lambda: c.shared.deaths.condemned)
            c.sweep()
            await a.until(lambda: not c.shared.counters.valkey._waiting)
            assert PROMPTS not in c.shared.tally.counters  # it starts later, and has no news
        a.know_replicas(replica(3, await good.start()))
        assert (await a.post(chat("deadly"))).status == 400
        assert not good.seen
        for engine in (bad, worse, good):
            await engine.stop()
