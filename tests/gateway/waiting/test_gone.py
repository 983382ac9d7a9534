"""A route's only engine is gone: who comes, and who waits for a slot, waits for the next launch."""

import asyncio

import pytest

from control.management.local.ports import free_port
from tests.gateway.place import Place, chat, route
from tests.gateway.routing.test_deaths import dying
from tests.gateway.upstream import Script, Upstream, answered, streamed
from tests.gateway.waiting.test_lost import ours, stopped


async def gone(place: Place, **members) -> None:
    """The only engine has been lost, which the snapshot has not heard yet."""
    place.know_replicas(ours(1, free_port(), **members))
    call = asyncio.create_task(place.post(chat("the one that found it so")))
    [live] = place.shared.replicas.all()
    await place.until(lambda: live.health.out)
    call.cancel()
    await place.until(lambda: not place.shared.calls)


@pytest.mark.parametrize("stream", [False, True])
async def test_who_comes_before_the_snapshot_has_heard_waits_for_the_next_launch(tmp_path, stream):
    new = Upstream(streamed("fine") if stream else answered("fine"))
    async with Place(tmp_path) as place:
        await gone(place)
        call = asyncio.create_task(place.post(chat(stream=stream)))
        await place.until(lambda: len(place.shared.waiting) == 1 or call.done())
        place.push(5)
        place.know_replicas()
        place.push(40)
        assert not call.done()
        place.know_replicas(ours(2, await new.start()))
        answer = await call
        assert (answer.status, b"fine" in answer.body) == (200, True)
        assert [closed.attempts for closed in place.closes()[-1:]] == [1]
        await stopped(new)


async def test_it_goes_at_once_where_the_engine_turns_out_to_live(tmp_path):
    engine = Upstream(answered("fine"))
    async with Place(tmp_path) as place:
        await gone(place)
        [live] = place.shared.replicas.all()
        call = asyncio.create_task(place.post(chat()))
        await place.until(lambda: len(place.shared.waiting) == 1 or call.done())
        await engine.start(live.info.port)
        place.push(5)  # when it is asked again
        assert (await asyncio.wait_for(call, 30)).status == 200
        await stopped(engine)


async def test_nobody_reports_its_end_for_longer_than_a_slot_is_waited_for(tmp_path):
    async with Place(tmp_path) as place:
        await gone(place)
        call = asyncio.create_task(place.post(chat()))
        await place.until(lambda: len(place.shared.waiting) == 1 or call.done())
        place.push(11)
        late = await asyncio.wait_for(place.post(chat()), 30)
        for answer in (await asyncio.wait_for(call, 30), late):
            assert (answer.status, answer.error["code"]) == (503, "server_is_overloaded")
            assert int(answer.headers["retry-after"]) > 0
        assert not place.shared.waiting


@pytest.mark.parametrize("why", ["external", "not held"])
async def test_who_comes_where_nothing_will_come_is_refused_at_once(tmp_path, why):
    async with Place(tmp_path) as place:
        place.know(route(cold_start_seconds=0 if why == "not held" else None))
        await gone(place, **({"engine": "external"} if why == "external" else {}))
        answer = await asyncio.wait_for(place.post(chat()), 30)
        assert (answer.status, answer.error["code"]) == (503, "server_is_overloaded")
        assert not place.shared.waiting


async def test_who_waited_for_a_slot_of_it_waits_on_for_the_next_launch(tmp_path):
    hold = asyncio.Event()
    old, new = dying(Script(head=False, end="rst", hold=hold)), Upstream(answered("fine"))
    async with Place(tmp_path) as place:
        place.know_replicas(ours(1, await old.start(), slots=1))
        calls = [asyncio.create_task(place.post(chat(f"call {n}"))) for n in range(3)]
        await place.until(lambda: len(old.seen) == 1 and len(place.shared.waiting) == 2)
        hold.set()
        await place.until(lambda: len(place.shared.waiting) == 3)
        place.know_replicas()
        place.push(40)
        place.shared.waiting.sweep(place.time.now())
        assert not any(call.done() for call in calls)
        place.know_replicas(ours(2, await new.start()))
        assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
        await stopped(old, new)


async def test_and_reads_when_to_come_again_once_that_wait_is_up(tmp_path):
    hold = asyncio.Event()
    old = dying(Script(head=False, end="rst", hold=hold))
    async with Place(tmp_path) as place:
        place.know_replicas(ours(1, await old.start(), slots=1))
        calls = [asyncio.create_task(place.post(chat(f"call {n}"))) for n in range(3)]
        await place.until(lambda: len(old.seen) == 1 and len(place.shared.waiting) == 2)
        hold.set()
        await place.until(lambda: len(place.shared.waiting) == 3)
        place.know_replicas()
        place.push(11)
        place.shared.waiting.sweep(place.time.now())
        assert len(place.shared.waiting) == 3
        place.push(46)
        for answer in await asyncio.wait_for(asyncio.gather(*calls), 30):
            assert (answer.status, answer.error["code"]) == (503, "model_loading")
        assert not place.shared.waiting
        await stopped(old)
