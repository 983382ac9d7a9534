"""An answer calls the model as the tenant did, whatever the engine calls it."""

import asyncio
import json

import pytest
from msgspec.structs import replace as replaced

from control.gateway.streams.names import name_of
from tests.gateway.place import chat, route
from tests.gateway.upstream import DONE, Script, answered, chunk, embedded, event, usage_of

REPLICA = {"served_name": "m", "engine": "vllm"}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (b'{"id":"1","model":"m","choices":[]}', b'{"id":"1","model":"a/b","choices":[]}'),
        (b'{"id":"1", "model": "m", "n": 1}', b'{"id":"1", "model": "a/b", "n": 1}'),
        (b'{"model":"an alias \\" of it"}', b'{"model":"a/b"}'),
        (
            b'{"text":"\\"model\\":\\"m\\"","model":"m"}',
            b'{"text":"\\"model\\":\\"m\\"","model":"a/b"}',
        ),
        (b'{"model":null}', b'{"model":null}'),
        (b'{"error":{}}', b'{"error":{}}'),
        (b"[DONE]", b"[DONE]"),
    ],
)
def test_the_member_is_replaced_and_nothing_else(given, shown):
    name = name_of("a/b", "m", "")
    assert name.renamed(given) == shown
    assert name.original(shown) == given


def test_an_answer_that_says_the_right_name_is_not_touched():
    assert name_of("chat", "chat", "") is None


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (b'{"model":"m","n":1}', b'{"model":"a","service_tier":"flex","n":1}'),
        (
            b'{"model":"m","choices":[],"service_tier":null,"x":1}',
            b'{"model":"a","service_tier":"flex","choices":[],"x":1}',
        ),
        (b'{"service_tier":"auto","model":"m"}', b'{"model":"a","service_tier":"flex"}'),
    ],
)
def test_the_tier_stands_beside_the_name_once(given, shown):
    assert name_of("a", "m", "flex").renamed(given) == shown


# As vLLM writes them: read without decoding from the second on.
def token(text: str, made: int) -> bytes:
    usage = f'{{"prompt_tokens":7,"total_tokens":{7 + made},"completion_tokens":{made}}}'
    ids = f',"token_ids":[{made}]'
    return (
        f'data: {{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m",'
        f'"choices":[{{"index":0,"delta":{{"content":"{text}"}},"logprobs":null,'
        f'"finish_reason":null{ids}}}],"usage":{usage}}}\n\n'
    ).encode()


TOKENS = [chunk(role=True), *(token(f"w{n}", n) for n in range(1, 7)), chunk(finish="stop"), DONE]
BODIES = {
    "/v1/chat/completions": chat(),
    "/v1/completions": {"model": "chat", "prompt": "x"},
    "/v1/embeddings": {"model": "chat", "input": "x"},
    "/v1/rerank": {"model": "chat", "query": "x", "documents": ["y"]},
    "/v1/score": {"model": "chat", "text_1": "x", "text_2": "y"},
    "/v1/responses": {"model": "chat", "input": "x"},
    "/v1/messages": chat(max_tokens=5),
}


def told(answer) -> list[dict]:
    lines = [line for line in answer.body.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


@pytest.mark.parametrize("path", BODIES)
async def test_whole_answers_name_the_route(place, engines, path):
    vectors = path in ("/v1/embeddings", "/v1/rerank", "/v1/score")
    await engines(embedded() if vectors else answered(), **REPLICA)
    answer = await place.post(BODIES[path], path)
    assert (answer.status, answer.json()["model"]) == (200, "chat")


@pytest.mark.parametrize("members", [{}, {"return_token_ids": True}, {"service_tier": "flex"}])
@pytest.mark.parametrize(
    "options",
    [{}, {"include_usage": True}, {"include_usage": True, "continuous_usage_stats": True}],
)
async def test_every_chunk_names_the_route(place, engines, members, options):
    await engines(Script(b"".join(TOKENS), split="frame"), **REPLICA)
    more = {"stream_options": options} if options else {}
    answer = await place.post(chat(stream=True, **more, **members))
    chunks = told(answer)
    assert answer.text() == "w1w2w3w4w5w6"
    assert {one["model"] for one in chunks} == {"chat"}
    tiers = {one.get("service_tier") for one in chunks}
    assert tiers == ({"flex"} if "service_tier" in members else {None})
    assert (chunks[-1].get("usage") is not None) is bool(options)
    shows_ids = any("token_ids" in choice for one in chunks for choice in one["choices"])
    assert shows_ids is ("return_token_ids" in members)


async def test_chunks_of_our_own_making_do_too(place, engines):
    place.know(route(stop=tuple(f"s{n}" for n in range(70))))
    await engines(Script(b"".join([chunk(role=True), chunk("a s69 b")]), split="frame"), **REPLICA)
    answer = await place.post(chat(stream=True, stream_options={"include_usage": True}))
    assert answer.text() == "a "
    assert {one["model"] for one in told(answer)} == {"chat"}


async def test_so_does_an_answer_that_another_engine_goes_on_with(place, engines):
    gate = asyncio.Semaphore(0)  # until there is another engine
    prompt = event(json.loads(chunk(role=True)[6:]) | {"prompt_token_ids": [1, 2]})
    first = Script(b"".join([prompt, token("a", 1), token("b", 2)]), split="frame", gate=gate)
    rest = {"id": "x", "object": "text_completion", "created": 2, "model": "n"}
    choice = {"index": 0, "text": "c", "finish_reason": "stop", "token_ids": [3]}
    second = Script(event(rest | {"choices": [choice], "usage": usage_of(4, 1)}) + DONE)
    dies = await engines(first, **REPLICA)
    place.know(route(on_replica_loss="continue"))
    call = asyncio.create_task(place.post(chat(stream=True, service_tier="default")))
    await place.until(lambda: dies.seen)
    engine = await engines(second, served_name="n", engine="vllm")
    for _ in range(10):
        gate.release()
    answer = await call
    assert engine.seen[0].body["prompt"] == [1, 2, 1, 2]
    assert answer.text() == "abc"
    assert {one["model"] for one in told(answer) if "model" in one} == {"chat"}
    assert {one["service_tier"] for one in told(answer) if "model" in one} == {"default"}


@pytest.mark.parametrize(
    ("asked", "keys", "tier", "priority"),
    [
        ({"service_tier": "priority"}, "interactive", "priority", "interactive"),
        ({"service_tier": "priority"}, "standard", "default", "standard"),
        ({"service_tier": "flex"}, "standard", "flex", "batch"),
        ({"service_tier": "auto"}, "standard", "default", "standard"),
        ({}, "standard", None, "standard"),
    ],
)
async def test_a_chat_learns_the_tier_it_ran_with(place, engines, asked, keys, tier, priority):
    place.identities = {d: replaced(i, priority=keys) for d, i in place.identities.items()}
    place.know(route(priority="interactive"))
    await engines(answered(), **REPLICA)
    answer = await place.post(chat(**asked))
    assert answer.json().get("service_tier") == tier
    assert answer.headers["x-weir-priority"] == priority


@pytest.mark.parametrize("stream", [True, False])
async def test_other_apis_learn_it_in_their_words(place, engines, stream):
    await engines(Script(b"".join(TOKENS)) if stream else answered(), **REPLICA)
    answer = await place.post({"model": "chat", "input": "x", "stream": stream}, "/v1/responses")
    response = told(answer)[-1]["response"] if stream else answer.json()
    assert (response["service_tier"], response["model"]) == ("default", "chat")
    answer = await place.post(chat(max_tokens=5, stream=stream), "/v1/messages")
    message = told(answer)[0]["message"] if stream else answer.json()
    assert (message["usage"]["service_tier"], message["model"]) == ("standard", "chat")
