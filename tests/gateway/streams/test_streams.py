"""Streams that are odd but right."""

from tests.gateway.place import chat
from tests.gateway.test_cases_streams import ROLE, datas
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
