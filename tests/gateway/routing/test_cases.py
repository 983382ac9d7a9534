"""Failure cases from the field about replicas: gone, stuck, not ready, or somebody else."""

import asyncio

from control.management.local.ports import free_port
from tests.gateway.place import Place, chat, identity, replica, route, target
from tests.gateway.upstream import Script, Upstream, answered, error, streamed


async def test_t01_a_dead_replica_costs_no_call_and_is_ejected(tmp_path):
    engine = Upstream(answered())
    async with Place(tmp_path, limits={"eject_seconds": 1000}) as place:
        place.know_replicas(replica(1, await engine.start()), replica(2, free_port()))
        place.shared.replicas._live[1].in_flight += 1  # so that the dead one is asked first
        answers = [await place.post(chat()) for _ in range(12)]
        assert {answer.status for answer in answers} == {200}
        assert sum(closed.attempts - 1 for closed in place.closes()) == 1
        assert place.shared.replicas.ejected() == 1
        await engine.stop()


async def test_t01_a_draining_or_unhealthy_replica_gets_no_new_call(place, engines):
    engine = await engines(answered())
    place.know(route(cold_start_seconds=0))
    for state in ("draining", "unhealthy", "warming"):
        place.know_replicas(replica(1, engine.port, state=state))
        refused = await place.post(chat())
        assert (refused.status, refused.error["code"]) == (503, "model_loading")
    assert not engine.seen


async def test_t02_unknown_is_404_and_not_ready_is_503(place):
    place.know(route(), route("other"))
    place.identities = {d: identity(routes=("chat",)) for d in place.identities}
    place.know(route(cold_start_seconds=0), route("other"))
    loading = await place.post(chat())
    assert (loading.status, loading.error["code"]) == (503, "model_loading")
    assert 0 < int(loading.headers["retry-after"]) <= 60
    assert int(loading.headers["retry-after-ms"]) > 0
    unknown = await place.post(chat(model="nothing"))
    hidden = await place.post(chat(model="other"))
    assert unknown.status == hidden.status == 404
    assert unknown.error["message"].replace("nothing", "other") == hidden.error["message"]
    assert place.refusals() == {"model_loading": 1, "model_not_found": 2}
    assert place.opens() == []


async def test_t02_all_replicas_down_is_503_with_a_wait(place):
    place.know_replicas(replica(1, free_port()), replica(2, free_port()))
    refused = await place.post(chat())
    assert (refused.status, refused.error["code"]) == (503, "server_is_overloaded")
    assert int(refused.headers["retry-after"]) > 0
    [closed] = place.closes()
    assert (closed.attempts, closed.outcome, closed.input_tokens) == (2, "upstream_error", 0)


async def test_t03_a_stuck_replica_is_left_for_another_and_ejected(place, engines):
    stuck = await engines(answered(hold=asyncio.Event()))
    await engines(streamed("fine"))
    fine_live = place.shared.replicas._live[2]
    for turn in range(3):
        fine_live.in_flight += 1  # so that the stuck one is asked first
        call = asyncio.create_task(place.post(chat(stream=True)))
        await place.until(lambda turn=turn: len(stuck.seen) == turn + 1)
        fine_live.in_flight -= 1
        place.push(61)
        answer = await call
        assert (answer.status, answer.text()) == (200, "fine")
    assert place.shared.replicas.ejected() == 1
    await place.until(lambda: stuck.connections == 0)
    place.push(3)
    await place.until(lambda: place.shared.replicas.ejected() == 0)
    assert place.shared.replicas._live[1].slots == 1  # back, on trial with one call


async def test_t03_a_stuck_replica_alone_is_a_504_that_is_not_retried(place, engines):
    stuck = await engines(answered(hold=asyncio.Event()))
    call = asyncio.create_task(place.post(chat(stream=True)))
    await place.until(lambda: stuck.seen)
    place.push(61)
    answer = await call
    assert (answer.status, answer.error["code"]) == (504, "upstream_timeout")
    assert answer.headers["x-should-retry"] == "false"
    assert place.closes()[0].outcome == "deadline"


async def test_t03_an_engine_that_stops_between_tokens_is_ended(place, engines):
    await engines(Script(streamed("a").body[:500], end="hold"))
    async with place.stream(chat(stream=True)) as stream:
        await stream.until(b'"a"')
        place.push(61)
        await stream.until(b"upstream_timeout")
    assert place.closes()[0].outcome == "deadline"


async def test_t03_a_whole_answer_has_the_total_deadline_alone(place, engines):
    stuck = await engines(answered(hold=asyncio.Event()))
    call = asyncio.create_task(place.post(chat()))
    await place.until(lambda: stuck.seen)
    place.push(500)
    assert not call.done()
    place.push(81)
    assert (await call).status == 504
    await asyncio.wait_for(stuck.seen[0].closed.wait(), 30)


async def test_t08_another_engine_at_the_address_is_not_taken_for_ours(place, engines):
    stranger = await engines(error(401, "Unauthorized"))
    ours = await engines(answered("ours"))
    place.know_replicas(stranger.info, ours.info, keys={1: "key-of-1", 2: "key-of-2"})
    answers = [await place.post(chat()) for _ in range(8)]
    assert {answer.status for answer in answers} == {200}
    assert len(stranger.seen) <= 1
    assert all("Bearer key-of-2" in seen.head for seen in ours.seen)


async def test_t08_a_new_launch_at_an_address_gets_connections_of_its_own(place, engines):
    engine = await engines(answered())
    await place.post(chat())
    place.know_replicas(replica(1, engine.port, generation=2))
    await place.post(chat())
    await place.until(lambda: engine.connections == 1)
    assert len(engine.seen) == 2


async def test_a02_calls_wait_for_a_slot_in_the_order_they_came(place, engines):
    engine = await engines(answered(hold=asyncio.Event()), slots=1)
    calls = []
    for n in range(3):
        calls.append(asyncio.create_task(place.post(chat(f"call {n}"))))
        await place.until(lambda n=n: len(place.shared.calls) == n + 1)
    assert len(engine.seen) == 1
    assert len(place.shared.waiting) == 2
    engine.scripts[0].hold.set()
    assert [answer.status for answer in await asyncio.gather(*calls)] == [200] * 3
    texts = [seen.body["messages"][0]["content"] for seen in engine.seen]
    assert texts == ["call 0", "call 1", "call 2"]


async def test_a02_a_call_that_waits_too_long_or_finds_the_queue_full_is_refused(tmp_path):
    engine = Upstream(answered(hold=asyncio.Event()))
    async with Place(tmp_path, limits={"waiting_calls": 1}) as place:
        place.know_replicas(replica(1, await engine.start(), slots=1))
        running = asyncio.create_task(place.post(chat()))
        await place.until(lambda: engine.seen)
        waiting = asyncio.create_task(place.post(chat()))
        await place.until(lambda: len(place.shared.waiting) == 1)
        refused = [await place.post(chat())]
        place.push(11)
        refused.append(await waiting)
        for answer in refused:
            assert (answer.status, answer.error["code"]) == (503, "server_is_overloaded")
            assert int(answer.headers["retry-after"]) > 0
        engine.scripts[0].hold.set()
        assert (await running).status == 200
        assert place.refusals() == {"server_is_overloaded": 2}
        await engine.stop()


async def test_a_replica_that_becomes_ready_takes_those_who_wait(place, engines):
    first = await engines(answered(hold=asyncio.Event()), slots=1)
    running = asyncio.create_task(place.post(chat()))
    await place.until(lambda: first.seen)
    waiting = asyncio.create_task(place.post(chat()))
    await place.until(lambda: len(place.shared.waiting) == 1)
    second = await engines(answered("second"), slots=1)
    assert (await waiting).status == 200
    assert len(second.seen) == 1
    first.scripts[0].hold.set()
    await running


async def test_a_connection_that_the_engine_has_just_closed_costs_nothing(place, engines):
    engine = await engines(answered(), answered(), Script(head=False), answered("again"))
    for _ in range(2):
        assert (await place.post(chat())).status == 200
    assert (await place.post(chat())).status == 200
    assert place.closes()[2].attempts == 1
    assert len(engine.seen) == 4


async def test_weights_send_a_part_of_the_calls_to_each_target(place, engines):
    one = await engines(answered(), deployment="a")
    two = await engines(answered(), deployment="b")
    place.know(route("chat", target("a", weight=1), target("b", weight=1)))
    for _ in range(24):
        await place.post(chat())
    assert len(one.seen) + len(two.seen) == 24
    assert one.seen
    assert two.seen
