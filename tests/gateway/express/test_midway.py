"""What happens in the middle of a stream is the same on the short way and on the long one."""

import asyncio
import json
import re

import pytest

from control.gateway.errors import InternalError
from control.gateway.express.streamed import ExpressStream
from control.gateway.express.unfolded import Unfolded
from control.metering.records import Progress
from tests.gateway.express.streaming import FINE, FRAMES, as_vllm, left, one_way, token
from tests.gateway.express.test_express import taken
from tests.gateway.place import Stream, chat, head_of
from tests.gateway.upstream import DONE, Script, event

__all__ = ["taken"]


class Middle:
    """One stream of five tokens, held where it is, and what its tenant has of it."""

    def __init__(self, place, engine, *, long: bool) -> None:
        self.place, self.engine = place, engine
        self.gate = asyncio.Semaphore(0)
        self.body = as_vllm(ids=True)
        engine.scripts = [Script(self.body, gate=self.gate, **FRAMES["frames"])]
        body = json.dumps(chat("hello", stream=True)).encode()
        more = "x-deadline-ms: 580000\r\n" if long else ""
        self.stream = Stream(place.port, head_of(len(body), more=more) + body)
        self.before, self.seen = len(place.records()), len(engine.seen)
        self.counted = dict(place.shared.tally.counters)

    async def reach(self, events: int) -> None:
        await self.place.until(lambda: len(self.engine.seen) > self.seen)
        for _ in range(events):
            self.gate.release()
        await self.place.until(lambda: self.came() == events)
        [self.call] = self.place.shared.calls
        [self.live] = self.place.shared.replicas.all()

    def came(self) -> int:
        """Events, the role's with them; less than none before the engine begins to answer."""
        [call] = self.place.shared.calls
        reader = (getattr(call, "_attempt", None) or call).reader
        return -1 if reader is None else bool(reader._last_chunk) + reader.parts

    def go_on(self) -> None:
        for _ in range(20):
            self.gate.release()

    async def all(self) -> str:
        self.go_on()
        return (await self.stream.until(b"0\r\n\r\n")).decode()


async def leave(middle: Middle) -> str:
    middle.stream.writer.transport.abort()
    return ""


async def drain(middle: Middle) -> str:
    middle.call.drain()
    return await told_of(middle)


async def wait_on(middle: Middle) -> str:
    middle.place.push(1)
    middle.place.push(1)
    return await middle.all()


async def keep_silent(middle: Middle) -> str:
    middle.place.push(16)
    middle.place.push(16)
    return await middle.all()


async def be_silent_for_too_long(middle: Middle) -> str:
    middle.place.push(61)
    return await told_of(middle)


async def pass_its_deadline(middle: Middle) -> str:
    middle.place.push(580)
    return await told_of(middle)


async def read_slowly(middle: Middle) -> str:
    [connection] = middle.place.listener.connections
    connection.pause_writing()
    middle.go_on()
    await middle.place.until(lambda: middle.engine.seen[-1].written == 10)
    connection.resume_writing()
    return await middle.all()


async def read_nothing(middle: Middle) -> str:
    [connection] = middle.place.listener.connections
    connection.pause_writing()
    middle.place.push(61)
    return ""


async def be_timed_out(middle: Middle) -> str:
    [attempt] = middle.live.attempts
    assert attempt.is_at_engine()
    attempt.time_out("The engine does not get on with its work.")
    return await told_of(middle)


async def fail_in_the_gateway(middle: Middle) -> str:
    [connection] = middle.place.listener.connections
    connection.call.refuse(InternalError("It failed."))
    return await told_of(middle)


async def told_of(middle: Middle) -> str:
    """A stream that has begun ends with an event, else there is an answer."""
    await middle.place.until(lambda: not middle.place.shared.calls)
    await middle.stream.until(b"}")
    got = middle.stream.got
    if b"text/event-stream" in got:
        got = await middle.stream.until(b"0\r\n\r\n")
    return got.decode()


HAPPENINGS = (
    *(leave, drain, wait_on, keep_silent, be_silent_for_too_long, pass_its_deadline),
    *(read_slowly, read_nothing, be_timed_out, fail_in_the_gateway),
)  # fmt: skip


async def one_middle(place, engine, happen, events: int, *, long: bool) -> dict:
    middle = Middle(place, engine, long=long)
    async with middle.stream:
        await middle.reach(events)
        got = await happen(middle)
        await place.until(lambda: not place.shared.calls)
        await place.until(lambda: not place.listener.connections or bool(got))
        # Whatever it was, what it left is what is left of one on the other way.
        return left(place, middle.before, middle.counted) | {
            "got": re.sub(r"req_\w+|openai-processing-ms: \d+|retry-after\S*: \S+", "", read(got)),
        }


def read(got: str) -> str:
    """As a client has it: what came in one turn is one chunk, and what does is chance."""
    head, _, body = got.partition("\r\n\r\n")
    if "transfer-encoding: chunked" not in head:
        return got
    parts = [head]
    while body:
        size, _, body = body.partition("\r\n")
        parts.append(body[: int(size, 16)])
        body = body[int(size, 16) + 2 :]
    return "".join(parts)


@pytest.mark.parametrize("events", [0, 1, 2, 4])
@pytest.mark.parametrize("happen", HAPPENINGS, ids=[one.__name__ for one in HAPPENINGS])
async def test_whatever_happens_in_a_stream_is_the_same_on_both_ways(
    place, engines, taken, happen, events
):
    engine = await engines(engine="vllm", served_name="chat")
    both = []
    for long in (False, True):
        place.push(60)
        await place.until(lambda: all(not one.health.out for one in place.shared.replicas.all()))
        await one_way(place, engine, FINE, long=long)
        both.append(await one_middle(place, engine, happen, events, long=long))
        await place.until(lambda: not place.listener.connections)
    short, long = both
    failures = short.pop("health"), long.pop("health")
    assert failures[1] in (failures[0], 2 * failures[0])
    assert short == long
    assert taken == [True, True, False, False]


async def begun(place, engine, events: int) -> Middle:
    middle = Middle(place, engine, long=False)
    await middle.stream.__aenter__()
    await middle.reach(events)
    assert type(middle.call) is ExpressStream
    return middle


@pytest.mark.parametrize(("events", "used"), [(1, []), (3, [(7, 0, 2)])])
async def test_it_stays_on_the_short_way_while_it_is_looked_at(place, engines, events, used):
    middle = await begun(place, await engines(engine="vllm"), events)
    place.push(1)
    place.push(1)
    noted = [one for one in place.records() if isinstance(one, Progress)]
    told = [(one.input_tokens, one.cached_input_tokens, one.output_tokens) for one in noted]
    assert told[-1:] == used
    assert place.shared.calls == {middle.call}
    assert middle.live.attempts == {middle.call}
    await middle.all()
    assert [close.outcome for close in place.closes()] == ["complete"]
    assert (middle.live.in_flight, middle.live.room.held) == (0, 0)
    middle.stream.writer.transport.abort()


async def test_another_replica_says_the_rest_of_it(place, engines):
    first, second = await engines(engine="vllm"), await engines(engine="vllm")
    lost = as_vllm(ids=True).partition(token(4, ids=True))[0]
    rest = event({"choices": [{"index": 0, "text": "t4", "token_ids": [4]}]}) + event(
        {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}
    )
    torn = Script(lost, split="frame", end="rst")
    rest += event({"choices": [], "usage": {"prompt_tokens": 6, "completion_tokens": 1}}) + DONE
    first.scripts = second.scripts = [torn, Script(rest, chunked=True)]
    answer = await place.post(chat("hello", stream=True))
    assert answer.text() == "t1t2t3t4"
    [close] = place.closes()
    assert (close.outcome, close.attempts, close.output_tokens) == ("complete", 2, 4)


async def test_what_is_unfolded_in_the_middle_keeps_what_it_holds(place, engines):
    middle = await begun(place, await engines(engine="vllm"), 3)
    place.push(1)
    held = middle.live.room.held
    unfolded = middle.call.unfold()
    assert isinstance(unfolded, Unfolded)
    assert unfolded is middle.call.unfold()
    assert (middle.live.in_flight, middle.live.room.held) == (1, held)
    assert place.shared.calls == {unfolded}
    await middle.all()
    assert [(one.outcome, one.delivered_tokens) for one in place.closes()] == [("complete", 5)]
    assert (middle.live.in_flight, middle.live.room.held) == (0, 0)
    middle.stream.writer.transport.abort()
