"""The real `openai` client, unchanged: table 1.2 row by row, and all that is not chat."""

import base64
import json
import struct

import openai
import pytest

from tests.gateway.place import KEY, chat, identity, route
from tests.gateway.upstream import DONE, Script, answered, chunk, error, event, streamed

MESSAGES = chat()["messages"]
ASKED = {"model": "chat", "messages": MESSAGES, "max_tokens": 64}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.fixture
async def client(place):
    async with openai.AsyncOpenAI(
        api_key=KEY, base_url=f"{place.url}/v1", max_retries=2, timeout=30
    ) as client:
        yield client


def json_answer(body: dict, **changes) -> Script:
    return Script(json.dumps(body).encode(), content_type="application/json", **changes)


# --- table 1.2: class, status, type and code, and how often it is tried ------------------------


async def attempts(place, call) -> tuple[openai.APIStatusError, int]:
    """What was raised in the end, and how many requests arrived for it."""
    new_id, count = place.gateway.new_id, 0

    def counted() -> str:
        nonlocal count
        count += 1
        return new_id()

    place.gateway.new_id = counted
    try:
        with pytest.raises(openai.APIStatusError) as raised:
            await call
    finally:
        place.gateway.new_id = new_id
    assert raised.value.request_id.startswith("req_")
    return raised.value, count


@pytest.fixture
def at_once(monkeypatch) -> None:
    """Whether and how often a client tries again is asked here, not how long it sleeps."""
    monkeypatch.setattr(
        openai._base_client.BaseClient, "_calculate_retry_timeout", lambda *_, **__: 0
    )


BAD = [
    ({"temperature": 9}, "invalid_value", "temperature"),
    ({"temperature": "hot"}, "invalid_type", "temperature"),
    ({"messages": []}, "invalid_value", "messages"),
    ({"service_tier": "gold"}, "invalid_value", "service_tier"),
    ({"max_tokens": 101}, "invalid_value", "max_tokens"),
    ({"extra_body": {"surprise": 1}}, "unknown_parameter", "surprise"),
]


@pytest.mark.parametrize(("changes", "code", "param"), BAD)
async def test_bad_requests_are_tried_once(client, place, engines, changes, code, param):
    await engines(answered())
    place.know(route(output_tokens_max=100))
    raised, tries = await attempts(place, client.chat.completions.create(**ASKED | changes))
    assert (type(raised), raised.type) == (openai.BadRequestError, "invalid_request_error")
    assert (raised.code, raised.param, tries) == (code, param, 1)


async def test_a_context_that_is_too_long_is_tried_once(client, place, engines):
    await engines(error(400, "This model's maximum context length is 10 tokens."))
    raised, tries = await attempts(place, client.chat.completions.create(**ASKED))
    assert (type(raised), raised.code) == (openai.BadRequestError, "context_length_exceeded")
    assert (raised.param, tries) == ("messages", 1)


async def test_no_and_unknown_keys_are_tried_once(client, place, engines):
    await engines(answered())
    raised, tries = await attempts(
        place, client.with_options(api_key="wrong").chat.completions.create(**ASKED)
    )
    assert (type(raised), raised.code, tries) == (openai.AuthenticationError, "invalid_api_key", 1)
    assert raised.response.headers["www-authenticate"] == "Bearer"
    none = client.with_options(default_headers={"Authorization": "Basic x"})
    raised, tries = await attempts(place, none.chat.completions.create(**ASKED))
    assert (type(raised), raised.code, tries) == (openai.AuthenticationError, None, 1)


async def test_an_address_that_is_not_listed_is_tried_once(client, place, engines):
    await engines(answered())
    place.identities = {key: identity(networks=("10.0.0.0/8",)) for key in place.identities}
    place.know(route())
    raised, tries = await attempts(place, client.chat.completions.create(**ASKED))
    assert (type(raised), raised.code, tries) == (
        openai.AuthenticationError,
        "ip_not_authorized",
        1,
    )


async def test_an_endpoint_that_is_not_allowed_is_tried_once(client, place, engines):
    await engines(answered())
    place.identities = {key: identity(endpoints=("embeddings",)) for key in place.identities}
    place.know(route())
    raised, tries = await attempts(place, client.chat.completions.create(**ASKED))
    assert (type(raised), raised.type) == (openai.PermissionDeniedError, "permission_error")
    assert (raised.code, tries) == ("permission_denied", 1)
    assert "chat.completions" in raised.message


async def test_unknown_models_and_paths_are_tried_once(client, place, engines):
    await engines(answered())
    call = client.chat.completions.create(**ASKED | {"model": "none"})
    raised, tries = await attempts(place, call)
    assert (type(raised), raised.code, tries) == (openai.NotFoundError, "model_not_found", 1)
    raised, tries = await attempts(place, client.files.list())
    assert (type(raised), raised.code, tries) == (openai.NotFoundError, None, 1)
    raised, tries = await attempts(place, client.models.delete("chat"))
    assert (raised.status_code, raised.code, tries) == (405, "method_not_allowed", 1)


async def test_too_large_bodies_are_tried_once(client, place, engines):
    await engines(answered())
    content = "x" * (place.limits.body_bytes + 1)
    call = client.chat.completions.create(
        model="chat", messages=[{"role": "user", "content": content}]
    )
    raised, tries = await attempts(place, call)
    assert (raised.status_code, raised.code, tries) == (413, "request_too_large", 1)


LIMITS = [
    ({"requests_per_minute": 1}, "requests", "rate_limit_exceeded", 3),
    ({"output_tokens_per_minute": 100}, "tokens", "rate_limit_exceeded", 3),
    ({"output_tokens_per_minute": 10}, "tokens", "rate_limit_exceeded", 1),  # never fits
]


@pytest.mark.parametrize(("limits", "kind", "code", "wanted"), LIMITS)
async def test_limits(client, place, engines, at_once, limits, kind, code, wanted):
    await engines(answered("fine", 7, 64))
    place.know(route(), scopes={"t:1": limits})
    if wanted > 1:
        await client.chat.completions.create(**ASKED)
    raised, tries = await attempts(place, client.chat.completions.create(**ASKED))
    assert (type(raised), raised.type, raised.code) == (openai.RateLimitError, kind, code)
    assert ("retry-after" in raised.response.headers) == (wanted > 1)
    assert tries == wanted


ENGINE = [
    (error(500), openai.InternalServerError, 502, "upstream_error", 3),
    (error(503), openai.InternalServerError, 503, "server_is_overloaded", 3),
]


@pytest.mark.parametrize(("script", "class_", "status", "code", "wanted"), ENGINE)
async def test_engines(client, place, engines, at_once, script, class_, status, code, wanted):
    await engines(script)
    raised, tries = await attempts(place, client.chat.completions.create(**ASKED))
    assert (type(raised), raised.status_code, raised.code) == (class_, status, code)
    assert tries == wanted


async def test_a_model_that_is_not_ready(client, place, at_once):
    place.know(route(cold_start_seconds=0))
    raised, tries = await attempts(place, client.chat.completions.create(**ASKED))
    assert (raised.status_code, raised.code, tries) == (503, "model_loading", 3)
    assert 0 < int(raised.response.headers["retry-after"]) <= 60


async def test_work_that_was_paid_for_is_not_tried_again(client, place, engines):
    await engines(error(504))
    raised, tries = await attempts(place, client.chat.completions.create(**ASKED))
    assert (raised.status_code, raised.code, tries) == (504, "upstream_timeout", 1)


# --- not chat -----------------------------------------------------------------------------------


async def test_tools_and_a_schema_reach_the_engine_as_they_are(client, engines):
    engine = await engines(answered())
    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    format_ = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    more = {"tools": tools, "tool_choice": "auto", "response_format": format_, "n": 2}
    await client.chat.completions.create(**ASKED, **more, logprobs=True, top_logprobs=5, seed=7)
    sent = engine.seen[0].body
    assert {name: sent[name] for name in more} == more
    assert (sent["logprobs"], sent["top_logprobs"], sent["seed"]) == (True, 5, 7)


def embedded(data) -> Script:
    one = {"object": "embedding", "index": 0, "embedding": data}
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    return json_answer({"object": "list", "data": [one], "model": "m", "usage": usage})


async def test_embeddings_in_base64_and_floats(client, engines, place):
    packed = base64.b64encode(struct.pack("<2f", 0.5, -1.0)).decode()
    engine = await engines(embedded(packed), embedded([0.5, -1.0]))
    for asked in ({}, {"encoding_format": "float"}):
        answer = await client.embeddings.create(model="chat", input=["a"], **asked)
        assert answer.data[0].embedding == [0.5, -1.0]
        assert answer.usage.prompt_tokens == 5
    assert [seen.body["encoding_format"] for seen in engine.seen] == ["base64", "float"]
    assert all(seen.head.startswith("POST /v1/embeddings ") for seen in engine.seen)
    assert "max_tokens" not in engine.seen[0].body
    closes = [(c.endpoint, c.input_tokens, c.output_tokens) for c in place.closes()]
    assert closes == [("embeddings", 5, 0)] * 2


async def test_a_model_that_does_not_embed_says_so_and_stays(client, engines, place):
    await engines(json_answer({"detail": "Not Found"}, status=404), answered())
    engine_says = Script(b'{"detail":"Not Found"}', status=404, content_type="application/json")
    engine = await engines(engine_says)
    raised, tries = await attempts(place, client.embeddings.create(model="chat", input="a"))
    assert (type(raised), raised.param, tries) == (openai.BadRequestError, "model", 1)
    engine.scripts = [answered("still here")]
    answer = await client.chat.completions.create(**ASKED)
    assert answer.choices[0].message.content


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
async def test_rerank(place, engines, path):
    usage = {"prompt_tokens": 9, "total_tokens": 9}
    results = [{"index": 0, "document": {"text": "b"}, "relevance_score": 0.9}]
    body = {"id": "r", "model": "m", "results": results, "usage": usage}
    engine = await engines(json_answer(body))
    asked = {"model": "chat", "query": "a", "documents": ["b"], "top_n": 1}
    answer = await place.post(asked, path)
    assert (answer.status, answer.json()["results"]) == (200, results)
    assert engine.seen[0].head.startswith("POST /v1/rerank ")
    [close] = place.closes()
    assert (close.endpoint, close.input_tokens, close.output_tokens) == ("rerank", 9, 0)


async def test_a_response(client, engines, place):
    engine = await engines(answered("fine", 7, 3))
    answer = await client.responses.create(
        model="chat", input="hello", instructions="Be kind.", max_output_tokens=64
    )
    assert (answer.output_text, answer.status) == ("fine", "completed")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, 3)
    assert engine.seen[0].head.startswith("POST /v1/chat/completions ")
    assert engine.seen[0].body["max_tokens"] == 64
    assert [close.endpoint for close in place.closes()] == ["responses"]


async def test_a_response_streamed(client, engines):
    await engines(streamed("a", "b"))
    async with client.responses.stream(model="chat", input="hello") as stream:
        deltas = [e.delta async for e in stream if e.type == "response.output_text.delta"]
        final = await stream.get_final_response()
    assert (deltas, final.output_text) == (["a", "b"], "ab")
    assert final.usage.output_tokens == 2


async def test_a_response_that_thinks_and_calls_a_tool(client, engines):
    deltas = [
        {"role": "assistant", "content": ""},
        {"reasoning": "hm"},
        {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "weather"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":"Bern"}'}}]},
    ]
    body = b"".join(
        event({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        for delta in deltas
    )
    await engines(Script(body + chunk(finish="tool_calls", usage=(9, 5)) + DONE))
    tools = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
    async with client.responses.stream(model="chat", input="hello", tools=tools) as stream:
        final = await stream.get_final_response()
    assert [item.type for item in final.output] == ["reasoning", "function_call"]
    assert final.output[1].arguments == '{"city":"Bern"}'


async def test_a_response_stream_that_breaks_has_failed(client, engines):
    await engines(Script(chunk("a", usage=(7, 1))))
    stream = await client.responses.create(model="chat", input="hello", stream=True)
    events = [one async for one in stream]
    assert events[-1].type == "response.failed"
    assert events[-1].response.error.code == "server_error"


async def test_what_responses_cannot_do_is_refused(client, place, engines):
    await engines(answered())
    call = client.responses.create(model="chat", input="a", previous_response_id="resp_1")
    raised, tries = await attempts(place, call)
    assert (raised.param, tries) == ("previous_response_id", 1)
