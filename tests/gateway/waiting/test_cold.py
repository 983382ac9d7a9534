"""A model at zero, or loading: its calls are held, within limits, and it is told to be wanted."""

import asyncio

import pytest
import redis.asyncio as redis
from django.conf import settings

from control.routes.snapshot import DeploymentInfo
from tests.gateway.place import Place, chat, replica, route, target
from tests.gateway.upstream import Upstream, answered
from tests.gateway.waiting.test_calls import URGENT, busy, waits


def cold(folder, **limits) -> Place:
    place = Place(folder, limits=limits)
    place.calls = []
    return place


async def head(place: Place, text: str) -> bytes:
    """Of the answer to a call; a client for each of hundreds would take too long to make."""
    async with place.stream(chat(text)) as stream:
        return await stream.until(b"\r\n\r\n")


async def test_a02_a_call_waits_for_the_model_and_is_answered(tmp_path):
    engine = Upstream(answered())
    async with cold(tmp_path) as place:
        call = await waits(place, "first")
        place.push(20)
        assert not call.done()
        place.know_replicas(replica(1, await engine.start()))
        assert (await call).status == 200
        await engine.stop()


async def test_a02_a_burst_is_let_loose_at_the_concurrency_of_the_replica(tmp_path):
    engine = Upstream(answered(hold=asyncio.Event()))
    async with cold(tmp_path, waiting_calls=100) as place:
        calls = [asyncio.create_task(head(place, str(n))) for n in range(200)]
        await place.until(lambda: sum(call.done() for call in calls) == 100)
        assert len(place.shared.waiting) == 100
        place.push(20)
        place.know_replicas(replica(1, await engine.start(), slots=8))
        await place.until(lambda: len(engine.seen) == 8)
        assert place.shared.replicas._live[1].in_flight == 8
        most = 0

        def watched(now: float) -> None:
            nonlocal most
            most = max(most, place.shared.replicas._live[1].in_flight)

        place.shared.replicas.sweep = watched
        engine.scripts[0].hold.set()
        heads = await asyncio.gather(*calls)
        refused = [head for head in heads if head.startswith(b"HTTP/1.1 503 ")]
        assert len(refused) == sum(head.startswith(b"HTTP/1.1 200 ") for head in heads) == 100
        assert all(b"retry-after: " in head for head in refused)
        assert len(engine.seen) == len(place.closes()) == 100
        assert engine.connections <= most <= 8
        await engine.stop()


@pytest.mark.parametrize(
    ("stream", "of_route", "held_seconds"),
    [(False, None, 55), (True, None, 300), (False, 20, 20), (True, 20, 20)],
)
async def test_a02_who_waits_in_vain_reads_why_and_when_to_come_again(
    tmp_path, stream, of_route, held_seconds
):
    async with cold(tmp_path) as place:
        place.know(route(cold_start_seconds=of_route, commit_after_seconds=1000))
        call = await waits(place, "first", stream=stream)
        place.push(held_seconds - 1)
        await asyncio.sleep(0)
        assert not call.done()
        place.push(2)
        refused = await call
        assert (refused.status, refused.error["code"]) == (503, "model_loading")
        assert int(refused.headers["retry-after"]) > 0
        assert place.refusals() == {"model_loading": 1}
        assert place.opens() == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("info", "reason", "retry_after"),
    [
        ({"hindrance": "given_up", "cause": "oom_at_start"}, "oom_at_start", 30),
        ({"hindrance": "unplaced"}, "No machine has room", 30),
        ({"hindrance": "back_off", "cause": "crashed", "in": 320}, "crashed", 60),
        ({"hindrance": "back_off", "cause": "crashed", "in": 58}, "is tried again in", 58),
    ],
)
async def test_a02_a_start_that_failed_is_told_at_once_to_all_who_wait_for_it(
    tmp_path, info, reason, retry_after, stream
):
    """Case (c): all get 503 with the reason, those held and those that come."""
    async with cold(tmp_path) as place:
        place.know(route(cold_start_seconds=20))
        held = [await waits(place, str(n), stream=stream) for n in range(3)]
        failed = hindered(place, **info)
        place.know(route(cold_start_seconds=20), deployments=[failed])
        late = await place.post(chat("late", stream=stream))
        for answer in (*await asyncio.gather(*held), late):
            assert (answer.status, answer.error["code"]) == (503, "model_loading")
            assert reason in answer.error["message"]
            assert retry_after / 2 <= int(answer.headers["retry-after"]) <= retry_after
        assert len(place.shared.waiting) == 0
        assert place.refusals() == {"model_loading": 4}
        assert place.opens() == []


async def test_a02_a_call_waits_on_for_a_start_that_is_tried_again_within_its_limit(tmp_path):
    engine = Upstream(answered())
    async with cold(tmp_path) as place:
        call = await waits(place, "patient")
        failed = hindered(place, hindrance="back_off", **{"in": 20})
        place.know(route(), deployments=[failed])
        place.know_replicas(replica(1, await engine.start()))
        assert (await call).status == 200
        await engine.stop()


async def test_a02_who_waited_for_tries_in_vain_reads_what_they_came_to(tmp_path):
    async with cold(tmp_path) as place:
        call = await waits(place, "patient")
        failed = hindered(place, hindrance="back_off", cause="crashed", **{"in": 20})
        place.know(route(), deployments=[failed])
        place.push(18)
        place.know(route(), deployments=[hindered(place, "back_off", "crashed", **{"in": 36})])
        assert not call.done()
        place.push(38)
        answer = await call
        assert answer.error["code"] == "model_loading"


async def test_a_model_that_cannot_start_is_no_concern_of_routes_that_have_another(tmp_path):
    async with cold(tmp_path) as place:
        place.know(
            route("chat", target("d"), target("e")), deployments=[hindered(place, "given_up")]
        )
        call = await waits(place, "patient")
        place.push(50)
        assert not call.done()
        place.push(10)
        assert (await call).error["message"].endswith("Please try again shortly.")


def hindered(place: Place, hindrance: str, cause: str = "", **when: float) -> DeploymentInfo:
    after = place.time.wall() + when["in"] if when else None
    return DeploymentInfo("d", hindrance=hindrance, cause=cause, launch_after=after)


async def test_a02_clients_that_leave_reach_no_engine_and_are_not_billed(tmp_path):
    engine = Upstream(answered())
    async with cold(tmp_path) as place:
        streams = [place.stream(chat(f"gone {n}", stream=True)) for n in range(50)]
        for stream in streams:
            await stream.__aenter__()
        await place.until(lambda: len(place.shared.waiting) == 50)
        stays = await waits(place, "stays")
        for stream in streams:
            await stream.__aexit__()
        await place.until(lambda: len(place.shared.waiting) == 1)
        place.know_replicas(replica(1, await engine.start()))
        assert (await stays).status == 200
        assert [seen.body["messages"][0]["content"] for seen in engine.seen] == ["stays"]
        assert len(place.closes()) == 1
        assert place.refusals() == {"client_disconnected": 50}
        await engine.stop()


async def test_where_holding_is_off_or_nothing_can_come_it_is_refused_at_once(tmp_path):
    async with cold(tmp_path) as place:
        place.know(route("chat", cold_start_seconds=0), route("none", target(weight=0)))
        for name in ("chat", "none"):
            refused = await place.post(chat() | {"model": name})
            assert (refused.status, refused.error["code"]) == (503, "model_loading")
        assert not place.shared.calls


async def test_a_deadline_ends_the_wait_for_a_model_too(tmp_path):
    async with cold(tmp_path) as place:
        place.know(route(deadline_ms=3000))
        call = await waits(place, "hurried")
        place.push(4)
        late = await call
        assert (late.status, late.error["code"]) == (504, "upstream_timeout")


async def test_a_route_says_how_long_its_calls_wait_and_how_urgent_they_may_be(tmp_path):
    async with busy(tmp_path) as place:
        place.know(route(waiting_seconds=30, priority="batch"))
        call = await waits(place, "patient", key=URGENT)
        place.push(29)
        assert not call.done()
        place.push(2)
        refused = await call
        assert (refused.status, refused.error["code"]) == (503, "server_is_overloaded")
        assert refused.headers["x-weir-priority"] == "batch"


async def test_a_model_that_is_wanted_is_named_while_calls_wait_and_a_moment_longer(tmp_path):
    client = redis.Redis.from_url(settings.REDIS_LIVE_URL)
    await client.delete("demand:d")
    async with Place(tmp_path, redis_url=settings.REDIS_LIVE_URL) as place:
        place.calls = []
        await place.until(lambda: place.shared.counters.shared)
        place.sweep()
        assert await client.get("demand:d") is None
        calls = [await waits(place, str(n)) for n in range(2)]
        async with asyncio.timeout(30):
            while await client.get("demand:d") != b"2":  # noqa: ASYNC110 - Valkey tells nobody
                await asyncio.sleep(0.01)
        assert 0 < await client.ttl("demand:d") <= 3
        place.push(56)
        assert {answer.status for answer in await asyncio.gather(*calls)} == {503}
    await client.aclose()
