"""A call whose only engine dies before it answered: it waits for the next launch, within limits."""

import asyncio

import pytest

from control.gateway.routing.deaths import fingerprint
from control.management.local.ports import free_port
from control.routes.snapshot import DeploymentInfo
from tests.gateway.place import Place, chat, replica, route
from tests.gateway.routing.test_deaths import dying
from tests.gateway.upstream import Script, Upstream, answered, error, streamed

BREAKS = Script(head=False, end="rst")
BROKEN_ANSWER = Script(answered().body, content_type="text/plain", split=20, end="rst")
SAYS_SO = error(500, "EngineCore encountered an issue. EngineDeadError")
ROLE_ALONE = Script(streamed("a").body[:150], split="frame", end="rst")


def ours(id_: int, port: int, **changes):
    return replica(id_, port, **({"engine": "stub"} | changes))


async def asked(place: Place, *, express: bool = True, **members) -> asyncio.Task:
    """One that waits: its engine has died of something."""
    headers = {} if express else {"x-deadline-ms": "500000"}
    call = asyncio.create_task(place.post(chat(**members), **headers))
    await place.until(lambda: len(place.shared.waiting) == 1 or call.done())
    return call


@pytest.mark.parametrize(
    ("script", "members"),
    [
        (BREAKS, {}),
        (BREAKS, {"stream": True}),
        (BREAKS, {"express": False}),
        (BROKEN_ANSWER, {}),
        (SAYS_SO, {}),
        (ROLE_ALONE, {"stream": True}),
        (None, {}),
    ],
    ids=["breaks", "stream", "no express", "in its answer", "says so", "after the role", "gone"],
)
async def test_it_is_answered_by_the_engine_that_is_launched_anew(tmp_path, script, members):
    old = dying(script) if script else None
    new = Upstream(streamed("fine") if members.get("stream") else answered("fine"))
    async with Place(tmp_path) as place:
        place.know_replicas(ours(1, await old.start() if old else free_port()))
        call = await asked(place, **members)
        place.push(5)
        assert not call.done()  # though the snapshot has not heard of it yet
        place.know_replicas()
        place.push(40)
        assert not call.done()
        place.know_replicas(ours(2, await new.start()))
        answer = await call
        assert answer.status == 200
        assert b"fine" in answer.body
        [closed] = place.closes()
        assert (closed.outcome, closed.attempts, closed.input_tokens) == ("complete", 2, 7)
        assert [one.replica_id for one in closed.tries] == [1]
        assert (len(new.seen), place.refusals(), len(place.shared.waiting)) == (1, {}, 0)
        await stopped(old, new)


async def test_when_its_wait_is_up_it_reads_when_to_come_again_and_pays_nothing(tmp_path):
    old = dying(BREAKS)
    async with Place(tmp_path) as place:
        place.know_replicas(ours(1, await old.start()))
        call = await asked(place)
        place.know_replicas()
        place.push(54)
        assert not call.done()
        place.push(2)
        answer = await call
        assert (answer.status, answer.error["code"]) == (503, "model_loading")
        assert int(answer.headers["retry-after"]) > 0
        [closed] = place.closes()
        assert (closed.outcome, closed.status) == ("upstream_error", 503)
        assert (closed.input_tokens, closed.output_tokens, closed.attempts) == (0, 0, 1)
        assert closed.untold > 0  # its engine may have read the prompt all the same
        assert not place.shared.calls
        await stopped(old)


async def test_an_engine_that_nobody_reports_as_dead_is_not_waited_for_long(tmp_path):
    old = dying(BREAKS)
    async with Place(tmp_path) as place:
        place.know_replicas(ours(1, await old.start()))
        call = await asked(place)
        place.push(11)
        answer = await call
        assert (answer.status, answer.error["code"]) == (503, "server_is_overloaded")
        assert int(answer.headers["retry-after"]) > 0
        await stopped(old)


async def test_a_launch_that_cannot_come_is_not_waited_for(tmp_path):
    old = dying(BREAKS)
    async with Place(tmp_path) as place:
        place.know_replicas(ours(1, await old.start()))
        call = await asked(place)
        place.know_replicas()
        given_up = DeploymentInfo("d", hindrance="given_up", cause="oom_at_start")
        place.know(route(), deployments=[given_up])
        answer = await call
        assert (answer.status, answer.error["code"]) == (503, "model_loading")
        assert "oom_at_start" in answer.error["message"]
        await stopped(old)


@pytest.mark.parametrize("why", ["lives", "external", "not held"])
async def test_where_nothing_will_come_it_fails_at_once(tmp_path, why):
    engine = Upstream(BREAKS) if why == "lives" else dying(BREAKS)
    async with Place(tmp_path) as place:
        place.know(route(cold_start_seconds=0 if why == "not held" else None))
        kind = "external" if why == "external" else "stub"
        place.know_replicas(replica(1, await engine.start(), engine=kind))
        answer = await asyncio.wait_for(place.post(chat()), 30)
        assert (answer.status, answer.error["code"]) == (502, "upstream_error")
        assert len(engine.seen) == 1
        assert [(c.outcome, c.attempts) for c in place.closes()] == [("upstream_error", 1)]
        await stopped(engine)


async def test_after_its_first_token_nothing_is_asked_again(tmp_path):
    cut = Script(streamed("a", "b").body[:-200], split="frame", end="rst")
    old, new = dying(cut), Upstream(streamed("fine"))
    async with Place(tmp_path) as place:
        place.know_replicas(ours(1, await old.start()))
        answer = await asyncio.wait_for(place.post(chat(stream=True)), 30)
        assert b'"error"' in answer.body
        assert (len(place.shared.waiting), new.seen) == (0, [])
        await stopped(old)


NO_RETRIES = {"retry_burst": 0, "retry_ratio": 0}


async def at_work(place: Place, engine: Upstream, calls: int) -> list[asyncio.Task]:
    """So many, each another, that the engine has and has not begun to answer."""
    place.know_replicas(ours(1, await engine.start()))
    asked = [asyncio.create_task(place.post(chat(f"call {n}"))) for n in range(calls)]
    await place.until(lambda: len(engine.seen) == calls)
    return asked


async def test_all_that_it_was_at_wait_for_the_next_launch_and_take_no_retry(tmp_path):
    hold = asyncio.Event()
    old, new = dying(Script(head=False, end="rst", hold=hold)), Upstream(answered("fine"))
    async with Place(tmp_path, limits=NO_RETRIES) as place:
        calls = await at_work(place, old, 32)
        hold.set()
        await place.until(lambda: len(place.shared.waiting) == 32)
        place.know_replicas()
        place.know_replicas(ours(2, await new.start(), slots=8))
        answers = await asyncio.wait_for(asyncio.gather(*calls), 60)
        assert {answer.status for answer in answers} == {200}
        assert len(new.seen) == 32
        assert {closed.attempts for closed in place.closes()} == {2}
        assert not place.shared.waiting
        await stopped(old, new)


async def test_no_more_of_them_wait_than_the_queue_holds(tmp_path):
    hold = asyncio.Event()
    old, new = dying(Script(head=False, end="rst", hold=hold)), Upstream(answered("fine"))
    async with Place(tmp_path, limits={"waiting_calls": 3}) as place:
        calls = await at_work(place, old, 5)
        hold.set()
        await place.until(lambda: sum(call.done() for call in calls) == 2)
        await place.until(lambda: len(place.shared.waiting) == 3)
        place.know_replicas(ours(2, await new.start()))
        answers = await asyncio.gather(*calls)
        assert sorted(answer.status for answer in answers) == [200, 200, 200, 502, 502]
        await stopped(old, new)


async def test_where_others_serve_it_is_a_retry_and_none_is_left(tmp_path):
    hold = asyncio.Event()
    old, full = dying(BREAKS), Upstream(answered("fine", hold=hold))
    async with Place(tmp_path, limits=NO_RETRIES) as place:
        other = ours(2, await full.start(), slots=1)
        place.know_replicas(other)
        first = asyncio.create_task(place.post(chat("first")))
        await place.until(lambda: len(full.seen) == 1)
        place.know_replicas(ours(1, await old.start()), other)
        assert (await asyncio.wait_for(place.post(chat()), 30)).status == 502
        hold.set()
        assert (await first).status == 200
        await stopped(old, full)


async def test_a_slot_of_another_engine_is_waited_for_as_by_all_others(tmp_path):
    old, full = dying(BREAKS), Upstream(answered("fine", hold=asyncio.Event()))
    async with Place(tmp_path) as place:
        other = ours(2, await full.start(), slots=1)
        place.know_replicas(other)
        first = asyncio.create_task(place.post(chat("first")))
        await place.until(lambda: len(full.seen) == 1)
        place.know_replicas(ours(1, await old.start()), other)
        call = await asked(place)
        full.scripts[0].hold.set()
        assert (await call).status == (await first).status == 200
        assert len(full.seen) == 2
        await stopped(old, full)


async def test_a_prompt_of_death_that_waits_reaches_no_third_engine(tmp_path):
    old, new = dying(BREAKS), Upstream(answered("fine"))
    async with Place(tmp_path) as place:
        place.know_replicas(ours(1, await old.start()))
        call = await asked(place)
        [waiting] = place.shared.calls
        place.shared.deaths.strikes.condemned = frozenset([fingerprint(waiting._ask)])
        place.know_replicas(ours(2, await new.start()))
        answer = await call
        assert (answer.status, answer.error["code"]) == (400, "prompt_refused")
        assert (new.seen, len(place.shared.waiting)) == ([], 0)
        await stopped(old, new)


async def test_a_prompt_of_death_waits_once_and_is_stopped_at_its_second_death(tmp_path):
    old, next_one, third = dying(BREAKS), dying(BREAKS), Upstream(answered("fine"))
    async with Place(tmp_path, limits={"tries": 5}) as place:
        place.know_replicas(ours(1, await old.start()))
        call = await asked(place)
        place.know_replicas()
        place.know_replicas(ours(2, await next_one.start()))
        answer = await asyncio.wait_for(call, 30)
        assert answer.status == 502
        await place.until(lambda: place.shared.deaths.condemned)
        place.know_replicas(ours(3, await third.start()))
        assert (await place.post(chat())).error["code"] == "prompt_refused"
        assert (await place.post(chat("another"))).status == 200
        assert (len(old.seen), len(next_one.seen), len(third.seen)) == (1, 1, 1)
        await stopped(old, next_one, third)


async def stopped(*engines: Upstream | None) -> None:
    for engine in engines:
        if engine:
            await engine.stop()
