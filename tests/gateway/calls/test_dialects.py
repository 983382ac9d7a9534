"""Calls in other dialects live through what chat calls do: lost replicas, silence, stop words."""

import anthropic
import pytest

from tests.gateway.bodies.dialects.events import events_of, kinds
from tests.gateway.calls.test_continuation import TOKENS, WHOLE, Engine, Faults
from tests.gateway.place import KEY, replica
from tests.gateway.upstream import Script, answered, chunk, streamed

MESSAGES = [{"role": "user", "content": "hello"}]
ASKED = {"model": "chat", "max_tokens": 64, "messages": MESSAGES, "stream": True}


@pytest.fixture
async def two_stubs(place):
    engines = [Engine(), Engine()]
    infos = [
        replica(number, await engine.start(), engine="stub")
        for number, engine in enumerate(engines, 1)
    ]
    place.know_replicas(*infos)
    yield engines
    for engine in engines:
        await engine.stop()


async def test_a_message_outlives_its_replica(place, two_stubs):
    Faults(two_stubs, {"fail_after_tokens": 5, "fail_with": "rst"})
    async with (
        anthropic.AsyncAnthropic(api_key=KEY, base_url=place.url, max_retries=0) as client,
        client.messages.stream(model="chat", max_tokens=64, messages=MESSAGES) as stream,
    ):
        message = await stream.get_final_message()
    assert message.content[0].text == WHOLE
    assert (message.stop_reason, message.usage.output_tokens) == ("end_turn", TOKENS)
    [close] = place.closes()
    assert (close.outcome, close.endpoint, close.attempts) == ("complete", "messages", 2)


async def test_t04_before_the_first_token_another_replica_is_tried(place, engines):
    await engines(Script(chunk(role=True), end="rst"))
    await engines(streamed("fine"))
    answer = await place.post(ASKED, "/v1/messages")
    events = events_of(answer.body)
    assert kinds(events).count("message_start") == 1
    assert kinds(events)[-1] == "message_stop"


async def test_what_was_generated_is_billed_though_the_stream_breaks(place, engines):
    await engines(Script(chunk("a", usage=(7, 1))))
    answer = await place.post(ASKED, "/v1/messages")
    assert answer.status == 200
    assert kinds(events_of(answer.body))[-1] == "error"
    [close] = place.closes()
    assert (close.outcome, close.output_tokens) == ("truncated", 1)


async def test_silence_is_filled_with_comments(place, engines):
    from_engine = Script(chunk("a", usage=(7, 1)), end="hold")
    await engines(from_engine)
    async with place.stream(ASKED, path="/v1/messages") as stream:
        await stream.until(b"content_block_delta")
        place.push(place.limits.keep_alive_seconds + 1)
        got = await stream.until(b": keep-alive\n\n")
        assert got.index(b"content_block_delta") < got.index(b": keep-alive")


async def test_an_answer_that_is_not_understood_is_502_in_their_words(place, engines):
    await engines(Script(b'{"choices":[]}', content_type="application/json"))
    refused = await place.post(ASKED | {"stream": False}, "/v1/messages")
    assert (refused.status, refused.json()["error"]["type"]) == (502, "api_error")
    assert refused.headers["request-id"] == refused.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_whoever_shows_no_key_is_told_so_in_the_words_of_the_api(place, engines, path):
    await engines(answered())
    refused = await place.request("POST", path, content=b"{}")
    assert refused.status == 401
    assert ("type" in refused.json()) == (path == "/v1/messages")
