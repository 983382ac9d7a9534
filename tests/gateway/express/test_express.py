"""A call on the short way is what it is on the long one, whatever happens to it."""

import asyncio
import dataclasses
import re

import msgspec
import pytest

from control.gateway.calls.call import Call
from control.gateway.express.call import ExpressCall
from control.gateway.express.gate import Gate, is_plain
from control.gateway.express.unfolded import Unfolded
from control.routes.snapshot import BucketInfo, DeploymentInfo, ModerationInfo, RuleInfo
from tests.gateway.express.holding import held
from tests.gateway.place import chat, identity, route, target
from tests.gateway.upstream import Script, answered, error

# The long way: a header that asks for what holds anyhow.
LONG = {"x-deadline-ms": "580000"}
CACHED = answered().body.replace(
    b'"completion_tokens"', b'"prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens"'
)


def said(body: bytes) -> Script:
    return dataclasses.replace(answered(), body=body)


ANSWERS = {
    "fine": answered(),
    "cut short": said(answered().body.replace(b'"stop"', b'"length"')),
    "with an odd end": said(answered().body.replace(b'"stop"', b'"say \\"%\\""')),
    "cached": said(CACHED),
    "without usage": said(answered().body.replace(b'"usage"', b'"used"')),
    "of no tokens": answered("", 0, 0),
    "without choices": said(b'{"choices":[],"usage":{"prompt_tokens":3}}'),
    "in parts": answered("x" * 1000, split=100),
    "not JSON": said(b"[1]"),
    "odd usage": said(answered().body.replace(b'"prompt_tokens": 7', b'"prompt_tokens":"7"')),
    "an error": said(b'{"error":{"message":"no","code":400}}'),
    "nothing": Script(b"", content_type="application/json"),
    "refused": error(400, "too long"),
    "busy": error(503),
    "a stream": Script(b"data: [DONE]\n\n"),
    "broken": Script(b"{", head=False, end="rst"),
}  # fmt: skip


@pytest.fixture
def taken(monkeypatch) -> list[bool]:
    """Which calls have gone the short way, and of those that did not."""
    seen, begin = [], Gate.begin

    def watched(self, *given):
        seen.append(begin(self, *given))
        return seen[-1]

    monkeypatch.setattr(Gate, "begin", watched)
    return seen


def steady(record) -> dict:
    """Without what differs between any two calls."""
    told = msgspec.to_builtins(record)
    for name in ("call_id", "started_at", "first_token_at", "ended_at"):
        told[name] = told.get(name) is not None
    for tried in told.get("tries") or ():
        tried |= {"until_us": None, "begun_us": None}
    if trace := told.get("trace"):
        trace["stages"] = sorted(trace["stages"])
        for decision in trace["decisions"]:
            decision.pop("figures", None)  # a replica that comes back has fewer slots
    return told


async def one_way(place, engine, script: Script, **headers: str) -> dict:
    engine.scripts = [script]
    before, seen = len(place.records()), len(engine.seen)
    counted = dict(place.shared.tally.counters)
    answer = await place.post(chat("hello", max_tokens=5), **headers)
    await place.until(lambda: not place.shared.calls)
    now = place.shared.tally.counters
    own = ("x-request-id", "openai-processing-ms", "retry-after-ms", "retry-after")
    [live] = place.shared.replicas.all()
    return {
        "status": answer.status,
        "body": re.sub(rb"req_\w+", b"", answer.body),
        "headers": {k: v for k, v in answer.headers.items() if k not in own},
        "asked": [one.body for one in engine.seen[seen:]],
        "heads": [re.sub(r"[0-9a-f]{16,}", "", one.head) for one in engine.seen[seen:]],
        "records": [steady(record) for record in place.records()[before:]],
        "counted": {k: v - counted.get(k, 0) for k, v in now.items() if v != counted.get(k, 0)},
        "left": (live.in_flight, live.room.held, len(live.attempts), len(place.shared.waiting)),
        "health": live.health.failures,
    }  # fmt: skip


@pytest.mark.parametrize("given", ANSWERS)
@pytest.mark.parametrize("served", ["chat", "m"])
async def test_an_answer_is_the_same_on_both_ways(place, engines, taken, given, served):
    place.know(route(output_tokens_max=100, sample=0.0))
    engine = await engines(engine="vllm", served_name=served)
    await one_way(place, engine, answered())
    short = await one_way(place, engine, ANSWERS[given])
    place.push(60)  # back in the rotation, if it left
    await place.until(lambda: all(not one.health.out for one in place.shared.replicas.all()))
    await one_way(place, engine, answered())
    long = await one_way(place, engine, ANSWERS[given], **LONG)
    assert taken == [True, True, True, False]
    failures = short.pop("health"), long.pop("health")
    assert failures[1] in (failures[0], 2 * failures[0])
    assert short == long


async def test_a_retry_goes_to_another_replica(place, engines, taken):
    await engines(error(500))
    good = await engines(answered())
    place.shared.replicas._live[2].in_flight += 1  # so that the bad one is asked first
    answers = [await place.post(chat()) for _ in range(20)]
    assert [answer.status for answer in answers] == [200] * 20
    assert len(good.seen) == 20
    assert all(taken)
    tries = [len(close.tries) for close in place.closes()]
    assert sum(tries) == sum(close.attempts - 1 for close in place.closes()) > 0
    assert not place.shared.calls


async def test_a_client_that_leaves_is_written_down(place, engines):
    call, asking, _ = await held(place, engines)
    asking.cancel()
    await place.until(lambda: place.closes())
    [close] = place.closes()
    assert (close.outcome, close.attempts) == ("client_closed", 1)
    assert (call.live.in_flight, call.live.attempts) == (0, set())


async def test_it_waits_on_through_the_sweeps_and_ends_at_its_deadline(place, engines):
    call, asking, _ = await held(place, engines)
    place.push(1)
    assert place.shared.calls == {call}
    place.push(580)
    assert (await asking).status == 504
    [close] = place.closes()
    assert close.outcome == "deadline"


async def test_one_that_took_long_leaves_its_trace(place, engines):
    _, asking, gate = await held(place, engines)
    place.push(61)
    gate.set()
    assert (await asking).status == 200
    [close] = place.closes()
    assert (close.trace.kept, close.outcome) == ("slow", "complete")
    [decision] = close.trace.decisions
    assert (decision["decision"], decision["why"]) == ("Chosen", "the only one with room")


async def test_a_gateway_that_stops_ends_it(place, engines):
    call, asking, _ = await held(place, engines)
    call.drain()
    assert (await asking).status == 503
    assert [close.outcome for close in place.closes()] == ["drained"]
    assert not place.shared.calls


async def test_an_engine_that_does_not_get_on_is_left_and_knows_its_prompt(place, engines):
    call, asking, _ = await held(place, engines)
    assert call.is_at_engine()
    assert call.ask is call.ask
    call.time_out("The engine does not get on with its work.")
    assert (await asking).status == 504
    assert [close.outcome for close in place.closes()] == ["deadline"]


async def test_nothing_is_sent_that_is_not_written_down(place, engines, monkeypatch):
    engine = await engines(answered())
    monkeypatch.setattr(place.shared.outbox, "_write", lambda lines: 0)
    assert (await place.post(chat())).status == 503
    assert not engine.seen
    [live] = place.shared.replicas.all()
    assert (live.in_flight, len(live.attempts)) == (0, 0)


async def test_a_call_that_is_unfolded_keeps_what_it_held(place, engines):
    call, asking, gate = await held(place, engines)
    line = place.shared.waiting._lines[call.want.pool]
    charged = dict(line.charged)
    unfolded = call.unfold()
    assert isinstance(unfolded, Unfolded)
    assert (call.live.in_flight, place.shared.calls) == (1, {unfolded})
    assert list(line.charged.values()) == list(charged.values())
    gate.set()
    assert (await asking).status == 200
    [close] = place.closes()
    assert (close.outcome, close.status, close.attempts) == ("complete", 200, 1)
    assert (call.live.in_flight, line.charged) == (0, {})


JUDGED = ModerationInfo("http://127.0.0.1:1/judge")
ELSEWHERE = RuleInfo((target("d"),), tenants=("nobody",))


@pytest.mark.parametrize(
    "changes",
    [
        {"stop": ("x",)},
        {"policy": "prefix"},
        {"policy": "sticky"},
        {"moderation": JUDGED},
        {"rules": (ELSEWHERE,)},
        {"priority": "batch"},
        {"sample": 1.0},
        {"bucket": BucketInfo(calls_per_second=1000.0)},
        {"output_tokens_max": 4},
    ],
)
async def test_a_route_that_asks_for_more_goes_the_long_way(place, engines, taken, changes):
    await engines(answered())
    place.know(route(**({"sample": 0.0} | changes)))
    await place.post(chat(max_tokens=5))
    assert taken == [False]


@pytest.mark.parametrize(
    ("headers", "plain"),
    [
        ({}, True),
        ({b"x-stainless-retry-count": b"0", b"x-weir-progress": b"1"}, True),
        ({b"x-stainless-retry-count": b"1"}, False),
        ({b"traceparent": b"00"}, False),
        ({b"x-deadline-ms": b"1"}, False),
        ({b"content-encoding": b"gzip"}, False),
    ],
)
def test_headers_that_ask_for_something_are_known(headers, plain):
    assert is_plain(headers) is plain


async def test_a_scope_with_limits_of_each_user_goes_the_long_way(place, engines, taken):
    await engines(answered())
    place.know(route(sample=0.0), scopes={"t:1": {"end_user_requests_per_minute": 5}})
    await place.post(chat())
    assert taken == [False]


async def test_without_a_free_slot_it_waits_as_all_calls_do(place, engines, taken):
    gate = asyncio.Event()
    engine = await engines(answered(hold=gate), slots=1)
    both = [asyncio.ensure_future(place.post(chat())) for _ in range(2)]
    await place.until(lambda: len(place.shared.waiting) == 1)
    assert sorted(taken) == [False, True]
    assert {type(call) for call in place.shared.calls} == {ExpressCall, Call}
    gate.set()
    assert [(await one).status for one in both] == [200, 200]
    assert len(engine.seen) == 2


async def test_what_is_known_of_a_key_and_a_route_ends_with_the_snapshot(place, engines, taken):
    engine = await engines(answered())
    await place.post(chat())
    place.know(route(output_tokens_default=9, sample=0.0))
    await place.post(chat())
    place.identities = {digest: identity(routes=("other",)) for digest in place.identities}
    place.know(route())
    assert (await place.post(chat())).status == 404
    assert [one.body.get("max_tokens") for one in engine.seen] == [None, 9]
    assert taken == [True, True]


async def test_a_guarded_deployment_looks_at_each_call(place, engines, taken):
    await engines(answered())
    now = place.time.wall()
    guarded = DeploymentInfo("d", guarded_since=now, guarded_until=now + 60, guard_tokens=10_000)
    place.know(route(sample=0.0), deployments=[guarded])
    assert (await place.post(chat())).status == 200
    assert taken == [False]
