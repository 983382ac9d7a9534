"""Token limits as tenants meet them: two gateways, a real Valkey, engines that count tokens."""

import asyncio
import re

import httpx
import pytest

from tests.gateway.place import KEY, Place, chat, replica, route
from tests.gateway.streams.test_cases import played
from tests.gateway.upstream import (
    DONE,
    Script,
    Upstream,
    answered,
    chunk,
    embedded,
    error,
    streamed,
)

IN, OUT = "input_tokens_per_minute", "output_tokens_per_minute"
NINETY = "x" * 234  # with model, role and max_tokens 245 bytes, estimated at 90 tokens
BODIES = {
    "/v1/chat/completions": chat(NINETY, max_tokens=110),
    "/v1/completions": {"model": "chat", "prompt": NINETY + "user", "max_tokens": 110},
    "/v1/embeddings": {"model": "chat", "input": NINETY + "user110"},
}


def limit(gateways: list[Place], limits: dict[str, int], scope: str = "t:1", **more) -> None:
    for place in gateways:
        place.know(route(**more), scopes={scope: limits})


def full_at(valkey, limit: str, scope: str = "t:1") -> int:
    """When a bucket is full again, in microseconds: the one number that is kept of it."""
    return int(valkey.get(f"rate:{scope}:{limit}") or 0)


def now(valkey) -> int:
    """In microseconds, by the clock that counts."""
    seconds, microseconds = valkey.time()
    return seconds * 1_000_000 + microseconds


@pytest.mark.parametrize("path", BODIES)
async def test_r02_parallel_calls_hold_what_they_may_use(gateways, engine, valkey, path):
    """Input and output have a limit each here: 1000 tokens a minute are 450 and 550."""
    limit(gateways, {IN: 450, OUT: 550})
    reads = path == "/v1/embeddings"  # and writes nothing
    engine.scripts = [embedded(90) if reads else answered("fine", 90, 10)]
    engine.scripts[0].hold = asyncio.Event()
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(timeout=30, headers=headers) as client:
        urls = [gateways[number % 2].url + path for number in range(50)]
        asked = [asyncio.create_task(client.post(url, json=BODIES[path])) for url in urls]
        await gateways[0].until(lambda: sum(task.done() for task in asked) == 45)
        await gateways[0].until(lambda: len(engine.seen) == 5)
        held = full_at(valkey, IN), full_at(valkey, OUT)
        engine.scripts[0].hold.set()
        answers = await asyncio.gather(*asked)
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [429] * 45
    for refused in (answer for answer in answers if answer.status_code == 429):
        assert refused.json()["error"]["type"] == "tokens"
        assert 1 <= int(refused.headers["retry-after"]) <= 60
    await gateways[0].until(lambda: reads or full_at(valkey, OUT) < held[1])
    await gateways[0].until(lambda: not any(place.shared.calls for place in gateways))
    for place in gateways:  # the reply to each settlement has come
        await place.until(lambda place=place: not place.shared.counters.valkey._waiting)
    unused = 5 * (110 - 10) * 60_000_000 / 550
    assert full_at(valkey, IN) == held[0]  # 90 were estimated, and 90 used
    if reads:
        assert full_at(valkey, OUT) <= now(valkey)  # it is full
    else:
        assert full_at(valkey, OUT) == pytest.approx(held[1] - unused, abs=10)


async def test_a_refusal_says_what_is_used_and_asked_for_and_how_long_to_wait(gateways, engine):
    limit(gateways, {IN: 200, OUT: 100_000, "requests_per_minute": 60}, scope="p:4")
    body = BODIES["/v1/chat/completions"]
    first, second = [await place.post(body) for place in gateways]
    assert first.headers["x-ratelimit-limit-requests"] == "60"
    assert first.headers["x-ratelimit-remaining-requests"] == "59"
    assert first.headers["x-ratelimit-limit-tokens"] == "200"  # the tightest
    assert first.headers["x-ratelimit-remaining-tokens"] == "110"
    assert first.headers["x-ratelimit-reset-tokens"] == "27s"
    assert int(second.headers["x-ratelimit-remaining-tokens"]) >= 20
    refused = await gateways[0].post(body)
    assert (refused.status, refused.error["type"]) == (429, "tokens")
    assert (refused.error["code"], refused.error["param"]) == ("rate_limit_exceeded", None)
    found = re.fullmatch(
        r"Rate limit reached for 'chat' in project 'default' on input tokens per min \(TPM\):"
        r" Limit 200, Used (\d+), Requested 90\. Please try again in (\d+(?:\.\d+)?)(m?s)\.",
        refused.error["message"],
    )
    wait = float(found[2]) * (1000 if found[3] == "s" else 1)
    assert wait == int(refused.headers["retry-after-ms"])
    assert -(-wait // 1000) == int(refused.headers["retry-after"])
    assert int(found[1]) == 200 - int(refused.headers["x-ratelimit-remaining-tokens"])


async def test_a_call_larger_than_its_bucket_is_told_not_to_try_again(gateways, engine):
    limit(gateways, {IN: 89})
    refused = await gateways[0].post(BODIES["/v1/chat/completions"])
    assert (refused.status, refused.error["type"]) == (429, "tokens")
    assert refused.error["message"].startswith("Request too large for 'chat' in tenant 'acme'")
    assert "Limit 89, Requested 90" in refused.error["message"]
    assert refused.headers["x-should-retry"] == "false"
    assert "retry-after" not in refused.headers
    assert not engine.seen


@pytest.mark.parametrize(
    ("members", "default", "expected"),
    [
        ({"max_tokens": 110}, None, 110),
        ({"max_tokens": 110, "n": 3}, None, 330),
        ({"max_tokens": 5000}, None, 1024),  # limits.output_tokens_expected
        ({"max_tokens": 5000}, 200, 200),
        ({}, 200, 200),
        ({}, None, 1024),
    ],
)
async def test_output_is_held_as_it_is_expected(gateways, engine, members, default, expected):
    limit(gateways, {OUT: 6000}, output_tokens_default=default)
    answer = await gateways[0].post(chat(**members))
    assert int(answer.headers["x-ratelimit-remaining-tokens"]) == 6000 - expected


FIRST = chunk(role=True, usage=(90, 0))


@pytest.mark.parametrize(
    ("script", "used"),
    [
        (streamed("a", "b", tokens_in=90), (90, 2)),
        (streamed("a", "b", tokens_in=150), (150, 2)),  # more than was estimated
        (answered("fine", 90, 400), (90, 400)),
        (Script(FIRST + chunk("a", usage=(90, 1))), (90, 1)),  # broke off after a token
        (Script(FIRST), (0, 0)),  # before one
        (Script(FIRST + DONE), (90, 0)),
        (error(500), (0, 0)),
        (error(400), (0, 0)),
        (Script(head=False, end="rst"), (0, 0)),
    ],
)
async def test_what_was_used_is_settled_once(gateways, engine, valkey, script, used):
    limit(gateways, {IN: 1000, OUT: 1000})
    engine.scripts = [script]
    before = now(valkey)
    stream = script.content_type == "text/event-stream"
    await gateways[0].post(chat(NINETY, max_tokens=110, stream=stream))
    await gateways[0].until(lambda: not gateways[0].shared.calls)
    await gateways[0].until(lambda: not gateways[0].shared.counters.valkey._waiting)
    took = now(valkey) - before
    for name, tokens in zip((IN, OUT), used, strict=True):
        # Taken at some moment of the call, so that it is full this much later than then; or it
        # has been full already when the call ended.
        full_after = full_at(valkey, name) - before
        assert tokens * 60_000 - 10 <= max(full_after, 0), name
        assert full_after <= tokens * 60_000 + took + 10, name


async def test_a_client_that_leaves_pays_for_the_work_it_asked_for(gateways, engine, valkey):
    limit(gateways, {IN: 1000, OUT: 1000})
    engine.scripts = [answered(hold=asyncio.Event())]
    async with gateways[0].stream(BODIES["/v1/chat/completions"]):
        await gateways[0].until(lambda: engine.seen)
        held = full_at(valkey, IN), full_at(valkey, OUT)
    await gateways[0].until(lambda: full_at(valkey, OUT) < held[1])
    # The engine took the prompt, as far as is known. No more than half of the 90 tokens that were
    # set aside for it, at 60 ms each, comes back.
    assert 0 <= held[0] - full_at(valkey, IN) < 2_700_000


async def test_alone_a_gateway_grants_its_share_and_settles_it(tmp_path):
    engine = Upstream(answered("fine", 90, 10))
    async with Place(tmp_path, processes=2) as place:
        place.know_replicas(replica(1, await engine.start()))
        place.know(route(), scopes={"t:1": {IN: 360, OUT: 10_000}})
        body = BODIES["/v1/chat/completions"]
        answers = [await place.post(body) for _ in range(3)]
        assert [answer.status for answer in answers] == [200, 200, 429]
        assert answers[0].headers["x-ratelimit-remaining-tokens"] == "90"
        assert "input tokens" in answers[2].error["message"]
        [level] = [tat for name, tat in place.shared.counters._tats.items() if name[1] == OUT]
        assert level - place.time.now() <= 20 * 60 / 5000
        place.push(float(answers[2].headers["retry-after-ms"]) / 1000)
        assert (await place.post(body)).status == 200
    await engine.stop()


async def test_alone_a_call_larger_than_the_share_passes_when_the_share_is_full(tmp_path):
    engine = Upstream(answered("fine", 90, 10))
    async with Place(tmp_path, processes=4) as place:
        place.know_replicas(replica(1, await engine.start()))
        place.know(route(), scopes={"t:1": {IN: 120}})
        body = BODIES["/v1/chat/completions"]
        assert (await place.post(body)).status == 200
        refused = await place.post(body)
        assert (refused.status, refused.headers["retry-after"]) == (429, "60")  # 30 a minute
        for _ in range(3):
            place.push(60)
        assert (await place.post(body)).status == 200
    await engine.stop()


async def test_s09_a_stream_that_is_left_costs_its_limit_what_was_generated(
    gateways, engine, valkey
):
    limit(gateways, {OUT: 110})  # what has come takes seconds to refill: longer than the call
    script = played("S09-a")
    script.gate = asyncio.Semaphore(14)
    engine.scripts = [script]
    place = gateways[0]
    async with place.stream(chat(stream=True, max_tokens=110)) as stream:
        await stream.until(b"t12 ")
        held = full_at(valkey, OUT)
    await place.until(place.closes)
    [closed] = place.closes()
    assert 12 <= closed.output_tokens <= 14
    await place.until(lambda: full_at(valkey, OUT) < held)
    unused = (110 - closed.output_tokens) * 60_000_000 / 110
    assert full_at(valkey, OUT) == pytest.approx(held - unused, abs=10)
