"""Calls that wait, over real sockets: who overtakes whom, who is refused, and what they read."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from control.gateway.http1.connections import Connections
from control.gateway.http1.server import Connection
from control.gateway.process.sweep import hurry
from control.models.sealing import digest_of
from tests.gateway.place import (
    Place,
    chat,
    head_of,
    identity,
    padded,
    replica,
    route,
    target,
)
from tests.gateway.upstream import Upstream, answered, streamed

OTHER, URGENT = "weir-" + "o" * 40, "weir-" + "u" * 40


@asynccontextmanager
async def busy(tmp_path, *, slots: int = 1, tokens: tuple[int, int] = (7, 3), **limits):
    """One engine with all slots taken, until its `go_on` is set; three tenants may call it."""
    engine = Upstream(answered("fine", *tokens, hold=asyncio.Event()))
    async with Place(tmp_path, limits=limits) as place:
        place.identities[digest_of(OTHER)] = identity(tenant_id=2, tenant="other", key_id=10)
        place.identities[digest_of(URGENT)] = identity(
            tenant_id=3, tenant="urgent", key_id=11, priority="interactive"
        )
        place.know(route())
        port = await engine.start()
        place.info = lambda **changes: replica(1, port, **changes)
        place.know_replicas(place.info(slots=slots))
        place.engine, place.go_on = engine, engine.scripts[0].hold
        place.calls = [asyncio.create_task(place.post(chat("running"))) for _ in range(slots)]
        await place.until(lambda: len(engine.seen) == slots)
        yield place
        place.go_on.set()
        await asyncio.gather(*place.calls)
        await engine.stop()


async def waits(place: Place, text: str, **how) -> asyncio.Task:
    before = len(place.shared.waiting)
    names = ("service_tier", "stream", "max_tokens")
    members = {name: how.pop(name) for name in names if name in how}
    task = asyncio.create_task(place.post(chat(text, **members), **how))
    place.calls.append(task)
    await place.until(lambda: len(place.shared.waiting) == before + 1)
    return task


async def served(place: Place) -> list[str]:
    """Whom the engine saw, after those that ran at first, once all have ended."""
    place.go_on.set()
    await asyncio.gather(*place.calls)
    texts = [seen.body["messages"][0]["content"] for seen in place.engine.seen]
    return [text for text in texts if text != "running"]


async def learn(place: Place, held_seconds: float) -> None:
    """Five calls that hold a slot so long, as the gateway's clock has it."""
    for _ in range(5):
        place.shared.replicas.held(place.shared.replicas._live[1], held_seconds)


async def test_the_urgent_overtake_and_batch_still_moves(tmp_path):
    async with busy(tmp_path, waiting_seconds=600) as place:
        await waits(place, "bulk 0", service_tier="flex")
        await waits(place, "bulk 1", service_tier="flex")
        for n in range(25):
            await waits(place, f"plain {n}")
        for n in range(3):
            await waits(place, f"urgent {n}", key=URGENT)
        order = await served(place)
        assert order[:3] == ["urgent 0", "urgent 1", "urgent 2"]
        assert 10 < order.index("bulk 0") < 23  # one turn in twenty while it waits
        assert [text for text in order if "plain" in text] == [f"plain {n}" for n in range(25)]


async def test_a_flood_of_one_tenant_costs_another_a_turn(tmp_path):
    async with busy(tmp_path, waiting_seconds=600) as place:
        for n in range(20):
            await waits(place, f"flood {n}")
        await waits(place, "calm 0", key=OTHER)
        await waits(place, "calm 1", key=OTHER)
        order = await served(place)
        assert order.index("calm 0") <= 1
        assert order.index("calm 1") <= 4


async def test_a_flood_that_fills_the_queue_keeps_nobody_out(tmp_path):
    async with busy(tmp_path, waiting_calls=5) as place:
        flood = [await waits(place, f"flood {n}") for n in range(5)]
        refused = await place.post(chat("flood 5"))
        place.calls.append(calm := asyncio.create_task(place.post(chat("calm"), key=OTHER)))
        displaced = await flood[4]
        for answer in (refused, displaced):
            assert (answer.status, answer.error["code"]) == (503, "server_is_overloaded")
            assert int(answer.headers["retry-after"]) > 0
        assert (await served(place)).index("calm") <= 1
        assert (await calm).status == 200
        assert place.refusals() == {"server_is_overloaded": 2}


async def test_a_call_that_would_start_too_late_is_refused_at_arrival(tmp_path):
    async with busy(tmp_path) as place:
        await learn(place, 4)
        await waits(place, "in 4 s")
        await waits(place, "in 8 s")
        refused = await place.post(chat("in 12 s"))
        assert (refused.status, refused.error["code"]) == (503, "server_is_overloaded")
        assert refused.headers["retry-after"] == "12"
        assert "might start only in 12.0 s" in refused.error["message"]
        soon = await place.post(chat("wanted soon"), key=OTHER, x_deadline_ms="3000")
        assert (soon.status, soon.headers["retry-after"]) == (503, "8")
        assert len(place.shared.waiting) == 2
        tally = place.shared.tally.counters
        assert tally['refused_at_arrival_total{priority="standard"}'] == 2
        assert await served(place) == ["in 4 s", "in 8 s"]
        assert tally["wait_seconds_count"] == 2
        assert place.refusals() == {"server_is_overloaded": 2}


async def test_a_wait_in_vain_is_a_503_and_a_passed_deadline_a_504(tmp_path):
    async with busy(tmp_path) as place:
        patient = await waits(place, "patient")
        hurried = await waits(place, "hurried", x_deadline_ms="4000")
        place.push(5)
        late = await hurried
        assert (late.status, late.error["code"]) == (504, "upstream_timeout")
        assert late.headers["x-should-retry"] == "false"
        assert not patient.done()
        place.push(6)
        vain = await patient
        assert (vain.status, vain.error["code"]) == (503, "server_is_overloaded")
        assert await served(place) == []
        assert len(place.closes()) == 1


async def test_calls_whose_deadlines_pass_together_are_answered_once_each(tmp_path):
    async with busy(tmp_path) as place:
        late = [await waits(place, f"late {n}", x_deadline_ms="4000") for n in range(3)]
        place.push(5)
        assert [(await call).status for call in late] == [504, 504, 504]
        assert place.refusals() == {"upstream_timeout": 3}


async def test_nothing_expired_is_dispatched_even_if_its_turn_comes_first(tmp_path):
    async with busy(tmp_path) as place:
        hurried = await waits(place, "hurried", x_deadline_ms="4000")
        await waits(place, "next")
        place.time.pushed_seconds += 5  # no sweep has seen it yet
        place.shared.waiting.sweep = lambda now: None
        assert await served(place) == ["next"]
        assert (await hurried).status == 504


async def test_a_deadline_need_not_wait_for_the_next_sweep(tmp_path):
    """Which comes once a second; what a caller named may be shorter."""
    async with busy(tmp_path) as place:
        running = place.shared.calls.copy()
        hurried = await waits(place, "hurried", x_deadline_ms="400")
        place.time.pushed_seconds += 0.5
        hurry(place.gateway, place.time.now())
        assert (await hurried).status == 504
        assert place.shared.calls == running


@pytest.mark.parametrize("stream", [True, False])
async def test_a_deadline_ends_a_call_that_runs(place, engines, stream):
    engine = await engines(answered(hold=asyncio.Event()))
    call = asyncio.create_task(place.post(chat(stream=stream), x_deadline_ms="30000"))
    await place.until(lambda: engine.seen)
    place.push(31)
    answer = await call
    assert (answer.status, answer.error["code"]) == (504, "upstream_timeout")
    await asyncio.wait_for(engine.seen[0].closed.wait(), 30)
    [closed] = place.closes()
    assert (closed.outcome, closed.attempts) == ("deadline", 1)


@pytest.mark.parametrize("given", ["0", "-5", "soon", "600001", "1.5"])
async def test_a_deadline_that_is_none_is_a_400(place, engines, given):
    engine = await engines()
    answer = await place.post(chat(), x_deadline_ms=given)
    assert (answer.status, answer.error["param"]) == (400, "X-Deadline-Ms")
    assert not engine.seen
    assert not place.shared.calls


@pytest.mark.parametrize(
    ("tenants", "tier", "served_as"),
    [
        ("interactive", None, "interactive"),
        ("interactive", "flex", "batch"),
        ("standard", "priority", "standard"),
        ("batch", "default", "batch"),
    ],
)
async def test_the_priority_served_is_said_and_written_down(
    place, engines, tenants, tier, served_as
):
    engine = await engines(answered(), streamed("a"))
    place.identities = {d: identity(priority=tenants) for d in place.identities}
    place.know(route())
    for stream in (False, True):
        answer = await place.post(chat(stream=stream, service_tier=tier))
        assert (answer.status, answer.headers["x-weir-priority"]) == (200, served_as)
    for record in (*place.opens(), *place.closes()):
        assert record.priority == served_as
    assert all("service_tier" not in seen.body for seen in engine.seen)


async def test_a_tier_nobody_knows_is_a_400(place, engines):
    answer = await place.post(chat(service_tier="gold"))
    assert (answer.status, answer.error["param"]) == (400, "service_tier")
    assert "default, fast, flex" in answer.error["message"]


async def test_routes_to_the_same_replicas_share_their_queue(tmp_path):
    async with busy(tmp_path) as place:
        place.know(route(), route("also", target("d", weight=7), target("off", weight=0)))
        await waits(place, "bulk", service_tier="flex")
        body = chat("urgent") | {"model": "also"}
        place.calls.append(asyncio.create_task(place.post(body, key=URGENT)))
        await place.until(lambda: len(place.shared.waiting) == 2)
        assert await served(place) == ["urgent", "bulk"]
        assert place.shared.waiting.by_priority().total() == 0


async def test_what_a_call_used_is_its_tenants_in_the_next_turns(tmp_path):
    """The flood's calls are short to ask and long to answer: it is the answer that counts."""
    async with busy(tmp_path, tokens=(1, 0)) as place:
        place.engine.scripts = [answered(tokens_in=1, tokens_out=1000, hold=place.go_on)]
        for n in range(3):
            await waits(place, f"wordy {n}")
        place.engine.scripts.append(answered(tokens_in=1, tokens_out=1))
        for n in range(3):
            await waits(place, f"terse {n}", key=OTHER)
        order = await served(place)
        assert order == ["wordy 0", "terse 0", "terse 1", "terse 2", "wordy 1", "wordy 2"]
        await place.until(lambda: not place.shared.calls)
        place.sweep()
        assert not place.shared.waiting._lines


async def test_a_refusal_at_arrival_needs_no_turn_of_the_loop(tmp_path):
    async with busy(tmp_path) as place:
        await learn(place, 100)

        class Wire(asyncio.Transport):
            sent = b""

            def write(self, data: bytes) -> None:
                self.sent += data

        connection = Connection(place.gateway, place.limits, Connections(place.limits))
        wire = Wire()
        connection.connection_made(wire)
        connection.data_received(head_of(100) + padded(100))
        assert wire.sent.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 60\r\n" in wire.sent
