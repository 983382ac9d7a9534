"""Streams that are odd but right."""

import asyncio

from tests.gateway.place import chat
from tests.gateway.streams.test_cases import ROLE, datas
from tests.gateway.upstream import DONE, Script, chunk, event, streamed, usage_chunk


async def test_silence_is_filled_with_comments_once_the_stream_has_begun(place, engines):
    await engines(Script(ROLE + chunk("a", usage=(7, 1)), end="hold"))
    async with place.stream(chat(stream=True)) as stream:
        await stream.until(b'"a"')
        place.push(16)
        got = await stream.until(b": keep-alive\n\n")
        assert got.index(b'"a"') < got.index(b": keep-alive")


async def test_comments_of_an_engine_before_the_first_token_are_held(place, engines):
    await engines(Script(b": ping\n\n" + streamed("a").body))
    answer = await place.post(chat(stream=True))
    assert answer.text() == "a"


async def test_what_is_not_ours_to_judge_passes_as_it_came(place, engines):
    odd = b"event: note\nid: 7\ndata: not json\n\n"
    await engines(Script(chunk("a") + odd + chunk(finish="stop") + usage_chunk(7, 1) + DONE))
    answer = await place.post(chat(stream=True))
    assert odd in answer.body
    assert place.closes()[0].outcome == "complete"


async def test_a_member_called_usage_inside_an_answer_is_left_alone(place, engines):
    data = {
        "usage": {"prompt_tokens": 7, "completion_tokens": 1},
        "choices": [{"index": 0, "delta": {"content": '"usage":{}', "usage": {"a": 1}}}],
    }
    await engines(Script(event(data) + chunk(finish="stop") + DONE))
    answer = await place.post(chat(stream=True))
    assert datas(answer.body)[0] == {"choices": data["choices"]}
    assert place.closes()[0].output_tokens == 1


async def test_a_stream_that_outlives_the_longest_call_ends_with_one_error(place, engines):
    """Though its engine is never silent for long."""
    gate = asyncio.Semaphore(0)
    body = ROLE + b"".join(chunk(f"t{n} ", usage=(7, n)) for n in range(1, 100))
    engine = await engines(Script(body, split="frame", gate=gate, end="hold"))
    async with place.stream(chat(stream=True)) as stream:
        gate.release()
        for number in range(1, 20):
            gate.release()
            await stream.until(f"t{number} ".encode())
            place.push(30)
        await stream.until(b"t19 ")
        place.push(30)
        got = await stream.until(b"upstream_timeout")
    assert got.count(b'"error"') == 1
    assert b"[DONE]" not in got
    await asyncio.wait_for(engine.seen[0].closed.wait(), 30)
    await place.until(place.closes)
    assert (place.closes()[0].outcome, place.closes()[0].output_tokens) == ("deadline", 19)
