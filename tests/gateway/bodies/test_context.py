"""A scope's ceiling on context refuses what surely exceeds it, and nothing else."""

import json

import pytest

from control.gateway import errors
from control.gateway.bodies import context, wire
from tests.gateway.place import chat, route
from tests.gateway.upstream import DONE, Script, answered, error, event


def ask(body: dict) -> wire.Ask:
    endpoint = "completions" if "prompt" in body else "chat.completions"
    return wire.parse(endpoint, json.dumps(body).encode(), depth_max=20)


def prompt(given, **members) -> dict:
    return {"model": "chat", "prompt": given, **members}


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 80_000}}
PARTS = [{"type": "text", "text": "x" * 800}, IMAGE]


@pytest.mark.parametrize(
    ("body", "least"),
    [
        (chat("x" * 800), 100),
        (chat("价" * 800), 300),
        (chat(" \n" * 8000 + "x"), 0),
        ({"model": "chat", "messages": [{"role": "user", "content": PARTS}]}, 100),
        ({"model": "chat", "messages": [{"role": "user", "content": None}]}, 0),
        (prompt("x" * 800), 100),
        (prompt([1] * 800), 800),
        (prompt([[1] * 800, [2] * 900]), 900),
        (prompt(["x" * 800, "x" * 80]), 100),
    ],
)
def test_a_prompt_has_at_least_so_many_tokens(body, least):
    assert context.prompt_tokens_least(ask(body)) == least


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        (prompt([1] * 99), True),
        (prompt([1] * 100), False),  # no room for an answer
        (prompt([1] * 60, max_tokens=40), True),
        (prompt([1] * 60, max_tokens=41), False),
        (chat("x" * 700), True),  # perhaps
        (chat("x" * 800), False),
    ],
)
def test_what_surely_exceeds_the_ceiling_is_refused(body, fits):
    context.judge(ask(body), None)
    if fits:
        context.judge(ask(body), 100)
        return
    with pytest.raises(errors.ContextTooLong) as raised:
        context.judge(ask(body), 100)
    assert "maximum context length here is 100 tokens" in raised.value.message


LONG, SHORT = "x" * 9000, "y"
MESSAGES = [{"role": "user", "content": LONG}]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", {"messages": MESSAGES}, "messages"),
        ("/v1/completions", {"prompt": LONG}, "prompt"),
        ("/v1/embeddings", {"input": [SHORT, LONG]}, "input"),
        ("/v1/rerank", {"query": SHORT, "documents": [SHORT, {"text": LONG}]}, "documents"),
        ("/v1/rerank", {"query": LONG, "documents": [SHORT]}, "query"),
        ("/v1/score", {"text_1": SHORT, "text_2": [LONG]}, "text_2"),
        ("/v1/score", {"text_1": [SHORT, LONG], "text_2": SHORT}, "text_1"),
        ("/v1/responses", {"input": LONG}, "input"),
    ],
)
@pytest.mark.parametrize("by_engine", [True, False])
async def test_the_member_to_shorten_is_named(place, engines, path, body, param, by_engine):
    text = "This model's maximum context length is 512 tokens. However, you requested more."
    engine = await engines(error(400, text))
    scopes = {} if by_engine else {"t:1": {"context_tokens": 1000}}
    place.know(route(), scopes=scopes)
    refused = await place.post({"model": "chat", **body}, path)
    assert (refused.status, refused.error["code"]) == (400, "context_length_exceeded")
    assert refused.error["param"] == param
    assert bool(engine.seen) is by_engine


async def test_an_engine_may_say_so_in_its_stream(place, engines):
    said = event({"error": {"message": "maximum context length is 5", "code": 400}})
    await engines(Script(said + DONE))
    refused = await place.post(prompt("a", stream=True), "/v1/completions")
    assert (refused.status, refused.error["param"]) == (400, "prompt")


async def test_the_tightest_scope_counts(place, engines):
    engine = await engines(answered())
    place.know(route(), scopes={"t:1": {"context_tokens": 1000}, "k:9": {"context_tokens": 100}})
    refused = await place.post(prompt([1] * 100), "/v1/completions")
    assert (refused.status, refused.error["code"]) == (400, "context_length_exceeded")
    assert refused.error["param"] == "prompt"
    assert not engine.seen
    assert (await place.post(prompt([1] * 99), "/v1/completions")).status == 200
