"""What fails in the gateway itself ends one call, and nothing else."""

import asyncio

import pytest

from tests.gateway.place import Place, chat, replica, route
from tests.gateway.upstream import Script, Upstream, answered, streamed

ONE_AT_ONCE = {"k:9": {"concurrent_calls": 1}}


async def test_what_a_call_held_is_given_back_even_if_it_cannot_be_written_down(tmp_path):
    """A limit that is no number fails where it is decided which trace is kept."""
    upstream = Upstream(answered())
    async with Place(tmp_path, limits={"slow_call_seconds": None}) as place:
        place.know(route(), scopes=ONE_AT_ONCE)
        place.know_replicas(replica(1, await upstream.start(), slots=1))
        statuses = [(await asyncio.wait_for(place.post(chat()), 10)).status for _ in range(3)]
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
    """A replica without a way to hear of a success fails on each."""
    await engines(script)
    [live] = place.shared.replicas.all()
    health, live.health.succeeded = live.health.succeeded, None
    answer = await asyncio.wait_for(place.post(chat(**members)), 10)
    if answer.status == 200:
        assert b"could not be handled" in answer.body
    else:
        assert (answer.status, answer.error["code"]) == (502, "upstream_error")
    live.health.succeeded = health
    assert (await asyncio.wait_for(place.post(chat(**members)), 10)).status == 200
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
    answers = await asyncio.wait_for(asyncio.gather(*calls), 10)
    assert [answer.status for answer in answers] == [200, 500, 200]
    assert answers[1].error["code"] == "internal_error"
    place.sweep()
    assert (len(place.shared.calls), len(place.shared.waiting._lines)) == (0, 0)


async def test_a_try_that_cannot_be_made_gives_no_slot_back(place, engines):
    """A key that cannot be written fails before the slot is taken."""
    engine = await engines(answered())
    place.know_replicas(engine.info, keys={1: "\ud800"})
    answer = await asyncio.wait_for(place.post(chat()), 10)
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    [live] = place.shared.replicas.all()
    assert (live.in_flight, live.batch_in_flight, live.room.held) == (0, 0, 0)
    assert not engine.seen
