"""A call from its request to its usage event, over real sockets."""

import json

from tests.gateway.place import chat, route
from tests.gateway.upstream import answered, error, streamed


async def test_a_whole_answer_passes_as_it_came_and_is_written_down(place, engines):
    engine = await engines(answered("fine", 7, 3))
    answer = await place.post(chat(temperature=0.5))
    assert answer.status == 200
    assert answer.body == engine.scripts[0].body
    assert answer.headers["x-request-id"].startswith("req_")
    assert int(answer.headers["openai-processing-ms"]) >= 0
    [opened], [closed] = place.opens(), place.closes()
    assert opened.call_id == closed.call_id == answer.headers["x-request-id"]
    assert (closed.outcome, closed.status, closed.finish_reason) == ("complete", 200, "stop")
    assert (closed.input_tokens, closed.output_tokens, closed.delivered_tokens) == (7, 3, 3)
    assert (closed.tenant_id, closed.key_id, closed.version_id, closed.replica_id) == (1, 9, 3, 1)
    assert engine.seen[0].body == {
        "model": "chat",
        "temperature": 0.5,
        "messages": [{"role": "user", "content": "hello"}],
    }


async def test_a_stream_passes_without_what_only_weir_asked_for(place, engines):
    engine = await engines(streamed("a", "b"))
    answer = await place.post(chat(stream=True))
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.text() == "ab"
    assert b"usage" not in answer.body
    assert answer.events()[-1] == b"data: [DONE]"
    assert engine.seen[0].body["stream_options"] == {
        "include_usage": True,
        "continuous_usage_stats": True,
    }
    [closed] = place.closes()
    assert (closed.input_tokens, closed.output_tokens, closed.delivered_tokens) == (7, 2, 2)
    assert closed.first_token_at is not None


async def test_connections_of_both_sides_are_used_again(place, engines):
    engine = await engines(answered())
    for _ in range(3):
        await place.post(chat())
    assert engine.connections == 1


async def test_an_engines_refusal_is_the_tenants_to_read(place, engines):
    await engines(error(400, "This model's maximum context length is 8 tokens."))
    answer = await place.post(chat())
    assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")
    [closed] = place.closes()
    assert (closed.status, closed.input_tokens, closed.output_tokens) == (400, 0, 0)


async def test_only_what_a_key_may_call_is_listed(place, engines):
    listed = (await place.get("/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == ["chat"]
    assert (await place.get("/v1/models/chat")).json()["object"] == "model"
    missing = await place.get("/v1/models/org/none")
    assert (missing.status, missing.error["code"]) == (404, "model_not_found")


async def test_ready_says_whether_a_route_can_be_served(place, engines):
    assert (await place.get("/health")).json() == {"status": "ok"}
    assert (await place.get("/ready")).status == 503
    await engines()
    ready = await place.get("/ready")
    assert (ready.status, json.loads(ready.body)["routes_ready"]) == (200, 1)


async def test_numbers_of_the_platform_are_not_on_the_tenants_port(place, engines):
    await engines()
    assert (await place.get("/metrics")).status == 404


async def test_a_call_that_the_gateway_fails_on_leaves_nothing_behind(place, engines):
    for _ in range(2):
        await engines(answered())
    place.know(route(policy="of no name"))
    answer = await place.post(chat())
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    assert not place.shared.calls
    assert place.refusals() == {"internal_error": 1}
