"""What fails in the gateway itself ends one call, and nothing else."""

import asyncio

import pytest

from control.routes.snapshot import ModerationInfo
from tests.gateway.place import Place, chat, replica, route
from tests.gateway.upstream import Script, Upstream, answered, streamed
from tests.gateway.waiting.test_calls import URGENT, busy, waits

LAST = [{"role": "user", "content": "bulk 1"}]
ONE_AT_ONCE = {"k:9": {"concurrent_calls": 1}}


async def test_what_a_call_held_is_given_back_even_if_it_cannot_be_written_down(tmp_path):
    """A limit that is no number fails where it is decided which trace is kept."""
    upstream = Upstream(answered())
    async with Place(tmp_path, limits={"slow_call_seconds": None}) as place:
        place.know(route(), scopes=ONE_AT_ONCE)
        place.know_replicas(replica(1, await upstream.start(), slots=1))
        statuses = [(await asyncio.wait_for(place.post(chat()), 30)).status for _ in range(3)]
        place.sweep()
        [live] = place.shared.replicas.all()
        assert statuses == [200, 200, 200]
        assert (len(place.shared.calls), live.in_flight) == (0, 0)
        assert not place.shared.waiting._lines
        await upstream.stop()


@pytest.mark.parametrize(
    ("script", "members"),
    [
        (answered(), {}),
        (Script(answered().body, content_type="text/plain"), {}),  # up to its connection's end
        (streamed("a"), {"stream": True}),
    ],
)
async def test_a_call_whose_answer_cannot_be_handled_ends_at_once(place, engines, script, members):
    """Where nobody can hear of a success, each fails."""
    await engines(script)
    [live] = place.shared.replicas.all()
    replicas = place.shared.replicas
    hear, replicas.succeeded = replicas.succeeded, None
    answer = await asyncio.wait_for(place.post(chat(**members)), 30)
    if answer.status == 200:
        assert b"could not be handled" in answer.body
    else:
        assert (answer.status, answer.error["code"]) == (502, "upstream_error")
    replicas.succeeded = hear
    assert (await asyncio.wait_for(place.post(chat(**members)), 30)).status == 200
    assert (len(place.shared.calls), live.in_flight) == (0, 0)
    assert len(place.closes()) == 2


async def test_one_that_fails_on_its_turn_does_not_block_those_behind_it(place, engines):
    """Stop words that are a number fail where a request is made for an engine."""
    go_on = asyncio.Event()
    await engines(answered(hold=go_on), slots=1)
    place.know(route(), route("bad", stop=5))
    calls = []
    for number, name in enumerate(("chat", "bad", "chat")):
        calls.append(asyncio.create_task(place.post(chat() | {"model": name})))
        await place.until(lambda number=number: len(place.shared.calls) == number + 1)
    assert len(place.shared.waiting) == 2
    go_on.set()
    answers = await asyncio.wait_for(asyncio.gather(*calls), 30)
    assert [answer.status for answer in answers] == [200, 500, 200]
    assert answers[1].error["code"] == "internal_error"
    place.sweep()
    assert (len(place.shared.calls), len(place.shared.waiting._lines)) == (0, 0)


async def test_one_that_fails_as_it_yields_keeps_nobody_else_from_its_turn(tmp_path):
    """A batch call without a list of its pieces fails where it begins anew."""
    async with busy(tmp_path, slots=0) as place:
        place.know_replicas(place.info(slots=3))
        bulk = []
        for n, tier in enumerate(("flex", "flex", "default")):
            body = chat(f"bulk {n}", service_tier=tier)
            bulk.append(asyncio.create_task(place.post(body)))
            await place.until(lambda n=n: len(place.engine.seen) == n + 1)
        [bad] = [call for call in place.shared.calls if call._ask.fields["messages"] == LAST]
        bad._delivery.held = None
        urgent = [await waits(place, f"urgent {n}", key=URGENT) for n in range(2)]
        place.push(6)
        failed = await asyncio.wait_for(bulk[1], 30)
        assert (failed.status, failed.error["code"]) == (500, "internal_error")
        await place.until(lambda: len(place.engine.seen) == 5)
        assert len(place.shared.waiting) == 1
        place.go_on.set()
        answers = await asyncio.wait_for(asyncio.gather(bulk[0], bulk[2], *urgent), 30)
        assert {answer.status for answer in answers} == {200}


@pytest.mark.parametrize(
    ("when", "members", "status"),
    [
        ({"before": True}, {}, 500),
        ({"before": False, "after": True}, {}, 500),
        ({"before": False, "after": True}, {"stream": True}, 500),
    ],
)
async def test_a_call_that_fails_on_its_verdict_ends_at_once(place, engines, when, members, status):
    """Without the rules of its judge it fails on a judge's silence."""
    await engines(streamed("a") if members else answered())
    go_on = asyncio.Event()
    judge = Upstream(Script(b"{}", status=500, content_type="application/json", hold=go_on))
    url = f"http://127.0.0.1:{await judge.start()}/"
    place.know(route(moderation=ModerationInfo(url, timeout_ms=60_000, **when)))
    asked = asyncio.create_task(place.post(chat(**members)))
    await place.until(lambda: len(judge.seen) == 1)
    [call] = place.shared.calls
    if members:
        await place.until(lambda: call._end)
    call._rules = None
    go_on.set()
    answer = await asyncio.wait_for(asked, 30)
    assert (answer.status, answer.error["code"]) == (status, "internal_error")
    assert not place.shared.calls
    [live] = place.shared.replicas.all()
    assert live.in_flight == 0
    await judge.stop()


async def test_a_second_try_of_the_same_turn_waits_for_the_record_too(place, engines):
    """Nothing may be sent that is not written down."""
    engine = await engines(answered())
    sent = []

    class Full:
        def append_lines(self, lines: list[bytes]) -> int:
            for call in place.shared.calls:
                call._journal.opened(call._attempt, sent.append)
            return 0

    spool, place.shared.outbox._spool = place.shared.outbox._spool, Full()
    refused = await place.post(chat(), **{"x-deadline-ms": "60000"})  # no express call
    place.shared.outbox._spool = spool
    assert (refused.status, refused.error["code"]) == (503, "gateway_not_ready")
    assert (sent, engine.seen) == ([], [])


async def test_a_try_that_cannot_be_made_gives_no_slot_back(place, engines):
    """A key that cannot be written fails before the slot is taken."""
    engine = await engines(answered())
    place.know_replicas(engine.info, keys={1: "\ud800"})
    answer = await asyncio.wait_for(place.post(chat()), 30)
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    [live] = place.shared.replicas.all()
    assert (live.in_flight, live.batch_in_flight, live.room.held) == (0, 0, 0)
    assert not engine.seen
