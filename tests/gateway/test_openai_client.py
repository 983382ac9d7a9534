"""The real `openai` client, unchanged, against the gateway."""

import openai
import pytest

from tests.gateway.place import KEY, chat, route
from tests.gateway.streams.test_cases import played
from tests.gateway.upstream import Script, answered, error, streamed

MESSAGES = chat()["messages"]


@pytest.fixture
async def client(place):
    async with openai.AsyncOpenAI(
        api_key=KEY, base_url=f"{place.url}/v1", max_retries=0, timeout=30
    ) as client:
        yield client


async def test_chat(client, engines):
    await engines(answered("fine", 7, 3))
    answer = await client.chat.completions.create(model="chat", messages=MESSAGES)
    assert answer.choices[0].message.content == "fine"
    assert answer.usage.total_tokens == 10
    assert answer._request_id.startswith("req_")


async def test_stream_without_and_with_usage(client, engines):
    await engines(streamed("a", "b"))
    chunks = [
        part
        async for part in await client.chat.completions.create(
            model="chat", messages=MESSAGES, stream=True
        )
    ]
    assert "".join(part.choices[0].delta.content or "" for part in chunks) == "ab"
    assert all(part.usage is None for part in chunks)
    chunks = [
        part
        async for part in await client.chat.completions.create(
            model="chat", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
    ]
    assert [part.usage.total_tokens for part in chunks if part.usage] == [9]
    assert (chunks[-1].choices, chunks[-2].usage) == ([], None)


async def test_models(client, place, engines):
    place.know(route(), route("org/other"))
    assert [model.id async for model in client.models.list()] == ["chat", "org/other"]
    assert (await client.models.retrieve("org/other")).id == "org/other"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("nothing")


async def test_errors_have_their_class_code_and_id(client, place, engines):
    await engines(error(500))
    create = client.chat.completions.create
    with pytest.raises(openai.BadRequestError) as bad:
        await create(model="chat", messages=MESSAGES, temperature=9)
    assert (bad.value.param, bad.value.code) == ("temperature", "invalid_value")
    assert bad.value.request_id.startswith("req_")
    with pytest.raises(openai.NotFoundError) as missing:
        await create(model="none", messages=MESSAGES)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.AuthenticationError) as unknown:
        await client.with_options(api_key="wrong").chat.completions.create(
            model="chat", messages=MESSAGES
        )
    assert unknown.value.code == "invalid_api_key"
    with pytest.raises(openai.InternalServerError) as broken:
        await create(model="chat", messages=MESSAGES)
    assert (broken.value.status_code, broken.value.code) == (502, "upstream_error")


async def test_rate_limits_are_told_as_clients_read_them(client, place, engines):
    await engines(answered())
    place.know(route(), scopes={"t:1": {"requests_per_minute": 1}})
    create = client.chat.completions.with_raw_response.create
    first = await create(model="chat", messages=MESSAGES)
    assert first.headers["x-ratelimit-limit-requests"] == "1"
    assert first.headers["x-ratelimit-remaining-requests"] == "0"
    with pytest.raises(openai.RateLimitError) as limited:
        await create(model="chat", messages=MESSAGES)
    headers = limited.value.response.headers
    assert limited.value.code == "rate_limit_exceeded"
    assert 0 < int(headers["retry-after"]) <= 60
    assert "tenant" in limited.value.message
    assert "requests per min (RPM): Limit 1, Used 1, Requested 1" in limited.value.message


async def test_a_retry_of_the_client_is_counted(client, place, engines):
    await engines(error(500), answered("fine"))
    answer = await client.with_options(max_retries=2).chat.completions.create(
        model="chat", messages=MESSAGES
    )
    assert answer.choices[0].message.content == "fine"
    assert place.shared.tally.counters["retries_total"] == 1


async def test_a_retry_that_is_refused_is_counted_too(client, place, engines):
    await engines(answered("fine"))
    place.spool.has_room = False
    with pytest.raises(openai.InternalServerError):
        await client.with_options(max_retries=0).chat.completions.create(
            model="chat", messages=MESSAGES, extra_headers={"x-stainless-retry-count": "2"}
        )
    assert place.shared.tally.counters["retries_total"] == 1
    assert place.shared.tally.counters['refused_total{code="usage_backlog_full"}'] == 1


@pytest.mark.parametrize("name", ["S06-a", "S06-b"])
async def test_s06_a_stream_that_breaks_raises(client, engines, name):
    await engines(played(name))
    with pytest.raises(openai.APIError) as broken:
        async for _ in await client.chat.completions.create(
            model="chat", messages=MESSAGES, stream=True
        ):
            pass
    assert broken.value.code == "upstream_error"


async def test_completions_stream_too(client, engines):
    body = b'data: {"choices":[{"index":0,"text":"x","finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    await engines(Script(body))
    parts = [
        part.choices[0].text
        async for part in await client.completions.create(model="chat", prompt="a", stream=True)
    ]
    assert parts == ["x"]


async def test_token_limits_are_of_type_tokens_and_never_retried_in_vain(client, place, engines):
    engine = await engines(answered("fine", 7, 3))
    place.know(route(), scopes={"k:9": {"output_tokens_per_minute": 100}})
    create = client.with_options(max_retries=2).chat.completions.create
    await create(model="chat", messages=MESSAGES, max_tokens=90)
    with pytest.raises(openai.RateLimitError) as limited:
        await client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=99)
    assert (limited.value.type, limited.value.code) == ("tokens", "rate_limit_exceeded")
    assert int(limited.value.response.headers["retry-after-ms"]) > 0
    with pytest.raises(openai.RateLimitError) as never:
        await create(model="chat", messages=MESSAGES, max_tokens=101)
    assert (never.value.type, never.value.code) == ("tokens", "rate_limit_exceeded")
    assert "retry-after" not in never.value.response.headers
    assert place.refusals() == {"rate_limit_exceeded": 2}  # one attempt each
    assert len(engine.seen) == 1
