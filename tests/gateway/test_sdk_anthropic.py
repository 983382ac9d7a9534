"""The real `anthropic` client, unchanged, against the gateway: calls, streams, and table 1.2."""

import json

import anthropic
import pytest

from tests.gateway.place import KEY, chat, identity, route
from tests.gateway.upstream import DONE, Script, answered, chunk, error, event, streamed

MESSAGES = [{"role": "user", "content": "hello"}]
ASKED = {"model": "chat", "max_tokens": 64, "messages": MESSAGES}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.fixture
async def client(place):
    async with anthropic.AsyncAnthropic(
        api_key=KEY, base_url=place.url, max_retries=2, timeout=30
    ) as client:
        yield client


async def test_a_message(client, engines, place):
    engine = await engines(answered("fine", 7, 3))
    message = await client.messages.create(
        **ASKED, system="Be kind.", extra_body={"temperature": 0.5}
    )
    assert (message.content[0].text, message.stop_reason) == ("fine", "end_turn")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (7, 3)
    assert message._request_id.startswith("req_")
    sent = engine.seen[0].body
    assert [one["role"] for one in sent["messages"]] == ["system", "user"]
    assert (sent["max_tokens"], sent["temperature"]) == (64, 0.5)
    [close] = place.closes()
    assert (close.endpoint, close.input_tokens, close.output_tokens) == ("messages", 7, 3)


async def test_a_stream(client, engines, place):
    await engines(streamed("a", "b", "c"))
    async with client.messages.stream(**ASKED) as stream:
        texts = [text async for text in stream.text_stream]
        message = await stream.get_final_message()
    assert (texts, message.content[0].text) == (["a", "b", "c"], "abc")
    assert (message.stop_reason, message.usage.output_tokens) == ("end_turn", 3)
    assert stream.response.headers["request-id"].startswith("req_")
    [close] = place.closes()
    assert (close.input_tokens, close.output_tokens, close.delivered_tokens) == (7, 3, 3)


async def test_tools_streamed(client, engines):
    call = {"index": 0, "id": "t1", "type": "function", "function": {"name": "weather"}}
    deltas = [
        {"role": "assistant", "content": ""},
        {"tool_calls": [call | {"function": {"name": "weather", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Bern"}'}}]},
    ]
    body = b"".join(
        event({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        for delta in deltas
    )
    await engines(Script(body + chunk(finish="tool_calls", usage=(9, 5)) + DONE))
    tools = [{"name": "weather", "input_schema": SCHEMA}]
    async with client.messages.stream(**ASKED, tools=tools) as stream:
        message = await stream.get_final_message()
    assert message.stop_reason == "tool_use"
    assert (message.content[0].name, message.content[0].input) == ("weather", {"city": "Bern"})


async def test_a_conversation_with_a_tool_goes_on(client, engines):
    engine = await engines(answered("sunny"))
    turns = [
        *MESSAGES,
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Bern"}}
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "sun"}
        ]},
    ]  # fmt: skip
    await client.messages.create(**ASKED | {"messages": turns})
    said = engine.seen[0].body["messages"]
    assert [one["role"] for one in said] == ["user", "assistant", "tool"]
    assert said[1]["tool_calls"][0]["function"]["arguments"] == '{"city":"Bern"}'


async def test_counting_is_not_billed(client, engines, place):
    counted = Script(
        json.dumps({"count": 12, "max_model_len": 99, "tokens": []}).encode(),
        content_type="application/json",
    )
    engine = await engines(counted)
    answer = await client.messages.count_tokens(model="chat", messages=MESSAGES, system="s")
    assert answer.input_tokens == 12
    assert engine.seen[0].head.startswith("POST /tokenize ")
    [close] = place.closes()
    assert (close.endpoint, close.input_tokens, close.output_tokens) == (
        "messages.count_tokens",
        0,
        0,
    )


async def test_a_stream_that_breaks_raises(client, engines, place):
    await engines(Script(chunk("a", usage=(7, 1))))
    async with client.messages.stream(**ASKED) as stream:
        with pytest.raises(anthropic.APIStatusError) as broken:
            await stream.until_done()
    assert broken.value.body["error"]["type"] == "api_error"
    assert broken.value.body["request_id"].startswith("req_")
    assert [close.outcome for close in place.closes()] == ["truncated"]


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
async def test_both_ways_to_show_a_key_are_good_everywhere(header, place, engines):
    await engines(answered())
    value = KEY if header == "x-api-key" else f"Bearer {KEY}"
    sent = {header: value, "content-type": "application/json"}
    for path, body in (("/v1/messages", ASKED), ("/v1/chat/completions", chat())):
        got = await place.request("POST", path, content=json.dumps(body), headers=sent)
        assert got.status == 200


# --- table 1.2: class, status, type, and how often it is tried --------------------------------


async def attempts(client, place, **changes) -> tuple[anthropic.APIStatusError, int]:
    seen = place.gateway.new_id
    count = 0

    def counted() -> str:
        nonlocal count
        count += 1
        return seen()

    place.gateway.new_id = counted
    try:
        with pytest.raises(anthropic.APIStatusError) as raised:
            await client.messages.create(**ASKED | changes)
    finally:
        place.gateway.new_id = seen
    assert raised.value.response.headers["request-id"].startswith("req_")
    return raised.value, count


def kind_of(raised: anthropic.APIStatusError) -> str:
    assert raised.body["type"] == "error"
    return raised.body["error"]["type"]


async def test_bad_requests_are_tried_once(client, place, engines):
    await engines(answered())
    raised, tries = await attempts(client, place, stop_sequences=["a"] * 5)
    assert (type(raised), kind_of(raised)) == (anthropic.BadRequestError, "invalid_request_error")
    assert tries == 1


async def test_unknown_keys_are_tried_once(client, place, engines):
    await engines(answered())
    raised, tries = await attempts(client.with_options(api_key="wrong"), place)
    assert (type(raised), kind_of(raised)) == (
        anthropic.AuthenticationError,
        "authentication_error",
    )
    assert tries == 1


async def test_a_key_that_may_not_call_this_endpoint(client, place, engines):
    await engines(answered())
    place.identities = {
        digest: identity(endpoints=("chat.completions",)) for digest in place.identities
    }
    place.know(route())
    raised, tries = await attempts(client, place)
    assert (type(raised), kind_of(raised)) == (anthropic.PermissionDeniedError, "permission_error")
    assert "messages" in raised.body["error"]["message"]
    assert tries == 1
    assert (await place.post(chat())).status == 200


async def test_unknown_models_are_tried_once(client, place, engines):
    await engines(answered())
    raised, tries = await attempts(client, place, model="none")
    assert (type(raised), kind_of(raised)) == (anthropic.NotFoundError, "not_found_error")
    assert tries == 1


async def test_too_large_bodies_are_tried_once(client, place, engines):
    await engines(answered())
    content = "x" * (place.limits.body_bytes + 1)
    raised, tries = await attempts(client, place, messages=[{"role": "user", "content": content}])
    assert (raised.status_code, kind_of(raised)) == (413, "request_too_large")
    assert tries == 1


async def test_what_never_fits_is_tried_once(client, place, engines):
    await engines(answered())
    place.know(route(), scopes={"t:1": {"output_tokens_per_minute": 10}})
    raised, tries = await attempts(client, place)
    assert (type(raised), kind_of(raised)) == (anthropic.RateLimitError, "rate_limit_error")
    assert tries == 1


async def test_an_engine_that_fails_is_tried_three_times(client, place, engines, monkeypatch):
    await engines(error(500))
    at_once(monkeypatch)
    raised, tries = await attempts(client, place)
    assert (type(raised), kind_of(raised)) == (anthropic.InternalServerError, "api_error")
    assert tries == 3


async def test_no_replica_is_overloaded_and_tried_again(client, place, monkeypatch):
    at_once(monkeypatch)
    place.know(route(cold_start_seconds=0))
    raised, tries = await attempts(client, place)
    assert (raised.status_code, kind_of(raised)) == (529, "overloaded_error")
    assert 0 < int(raised.response.headers["retry-after"]) <= 60
    assert tries == 3


async def test_rate_limits_are_tried_again(client, place, engines, monkeypatch):
    await engines(answered())
    at_once(monkeypatch)
    place.know(route(), scopes={"t:1": {"requests_per_minute": 1}})
    assert (await client.messages.create(**ASKED)).content[0].text == "fine"
    raised, tries = await attempts(client, place)
    assert (type(raised), kind_of(raised)) == (anthropic.RateLimitError, "rate_limit_error")
    assert "retry-after" in raised.response.headers
    assert tries == 3


def at_once(monkeypatch) -> None:
    """Whether and how often a client tries again is asked here, not how long it sleeps."""
    monkeypatch.setattr(
        anthropic._base_client.BaseClient, "_calculate_retry_timeout", lambda *_, **__: 0
    )
