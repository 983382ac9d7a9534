"""A replica that drains is left at its deadline: what can go on elsewhere does, the rest ends."""

import asyncio

import pytest

from engines.stub.script import Script
from tests.gateway.calls.test_continuation import TOKENS, WHOLE, Engine, text_of
from tests.gateway.place import chat, replica
from tests.gateway.streams.test_cases import datas

LIMIT_SECONDS = 30
HELD = {"fail_after_tokens": 5, "hang": True}  # an answer that is far from its end


class Fleet:
    """Two engines: the first serves alone, then drains beside the second."""

    def __init__(self, place):
        self.place = place
        self.old, self.new = Engine(), Engine()

    async def start(self):
        self.ports = [await self.old.start(), await self.new.start()]
        self.place.know_replicas(self.info(0))
        return self

    def info(self, number, **changes):
        return replica(number + 1, self.ports[number], **({"engine": "stub"} | changes))

    def drain(self, *, beside=True, seconds=LIMIT_SECONDS, **changes):
        by = self.place.time.wall() + seconds
        others = [self.info(1, **changes)] if beside else []
        self.place.know_replicas(self.info(0, state="draining", drain_by=by), *others)

    async def holds(self, calls=1, tokens=5):
        counters = self.old.stub.counters
        await self.place.until(
            lambda: counters.running == calls and (not tokens or self._read() >= tokens)
        )

    def _read(self) -> int:
        """Tokens of streams that have come as far as the gateway."""
        attempts = [one for live in self.place.shared.replicas.all() for one in live.attempts]
        usages = [one.reader.usage() for one in attempts if one.reader]
        return sum(usage.output for usage in usages if usage)

    async def stop(self):
        for engine in (self.old, self.new):
            await engine.stop()


@pytest.fixture
async def fleet(place):
    made = await Fleet(place).start()
    yield made
    await made.stop()


def asked(place, **members):
    return asyncio.create_task(place.post(chat(**members)))


async def test_before_the_deadline_nothing_is_moved(place, fleet):
    fleet.old.plays(**HELD)
    answer = asked(place, stream=True)
    await fleet.holds()
    fleet.drain()
    place.push(LIMIT_SECONDS - 5)
    assert not answer.done()
    assert fleet.new.bodies == []
    answer.cancel()


async def test_e06_at_the_deadline_an_answer_goes_on_elsewhere_as_if_nothing_had_been(place, fleet):
    fleet.old.plays(**HELD)
    answer = asked(place, stream=True, max_tokens=64)
    await fleet.holds()
    fleet.drain()
    while place.shared.replicas.retries.spend():
        pass  # a planned move is no failure, and needs no budget
    place.push(LIMIT_SECONDS)
    got = await answer
    assert text_of(got.body) == WHOLE
    assert b'"error"' not in got.body
    await place.until(place.closes)
    [closed] = place.closes()
    assert (closed.outcome, closed.output_tokens, closed.attempts) == ("complete", TOKENS, 2)
    assert fleet.old.stub.counters.running == 0


async def test_e06_what_cannot_go_on_ends_with_an_error_and_the_tokens_so_far(place, fleet):
    fleet.old.plays(**HELD)
    answer = asked(place, stream=True, logprobs=True)
    await fleet.holds()
    fleet.drain()
    place.push(LIMIT_SECONDS)
    got = await answer
    assert datas(got.body)[-1]["error"]["code"] == "server_is_overloaded"
    await place.until(place.closes)
    [closed] = place.closes()
    assert (closed.outcome, closed.output_tokens) == ("drained", 5)
    assert fleet.new.bodies == []


async def test_where_nobody_else_runs_the_version_it_ends_as_drained(place, fleet):
    fleet.old.plays(**HELD)
    answer = asked(place, stream=True)
    await fleet.holds()
    fleet.drain(version_id=4)
    place.push(LIMIT_SECONDS)
    assert b'"error"' in (await answer).body
    await place.until(place.closes)
    assert [closed.outcome for closed in place.closes()] == ["drained"]


async def test_a_call_of_which_nothing_was_seen_begins_anew(place, fleet):
    fleet.old.plays(ttft_seconds=600)
    answer = asked(place)
    await fleet.holds(tokens=0)
    fleet.drain(version_id=4)
    place.push(LIMIT_SECONDS)
    got = await answer
    assert got.status == 200
    assert got.json()["usage"]["completion_tokens"] == TOKENS
    await place.until(place.closes)
    [closed] = place.closes()
    assert closed.outcome == "complete"
    assert [tried.why for tried in closed.tries] == ["requeued"]


async def test_it_waits_for_a_slot_elsewhere_if_none_is_free(place, fleet):
    fleet.old.plays(ttft_seconds=600)
    fleet.new.stub.scripts.take = lambda: Script(ttft_seconds=0.05)
    answer = asked(place)
    await fleet.holds(tokens=0)
    fleet.drain(slots=1)
    other = asked(place)
    await place.until(lambda: fleet.new.stub.counters.running == 1)
    place.push(LIMIT_SECONDS)
    assert [(await one).status for one in (answer, other)] == [200, 200]
    assert len(fleet.new.bodies) == 2


async def test_no_failure_is_held_against_the_replica(place, fleet):
    fleet.old.plays(**HELD)
    answer = asked(place, stream=True)
    await fleet.holds()
    fleet.drain()
    place.push(LIMIT_SECONDS)
    await answer
    assert [live.failures for live in place.shared.replicas.all()] == [0, 0]
