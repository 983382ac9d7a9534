"""A judge of what is asked and answered: flagged, silent, or content with it."""

import asyncio
import json

import pytest

from control.gateway.judges import Verdict, address_of, verdict_of
from tests.gateway.place import chat, route
from tests.gateway.streams.test_cases import content, datas
from tests.gateway.upstream import DONE, Script, Upstream, answered, chunk, streamed

CLEAN, FLAGGED = b'{"flagged":false}', b'{"results":[{"flagged":false},{"flagged":true}]}'
JSON = "application/json"


def says(body: bytes, **changes) -> Script:
    return Script(body, content_type=JSON, **changes)


def asked(judge: Upstream) -> list[list[str]]:
    return [seen.body["input"] for seen in judge.seen]


async def test_what_is_asked_is_judged_before_an_engine_sees_it(place, engines, judge):
    engine, judging = await engines(answered()), await judge(says(CLEAN))
    parts = [{"type": "text", "text": "two"}, {"type": "text", "text": "three"}]
    body = chat("one")
    body["messages"].append({"role": "user", "content": parts})
    answer = await place.post(body)
    assert (answer.status, len(engine.seen)) == (200, 1)
    assert asked(judging) == [["one", "two", "three"]]
    told = judging.seen[0].body
    assert (told["route"], told["stage"], told["call"]) == (
        "chat",
        "input",
        place.closes()[0].call_id,
    )
    assert place.closes()[0].flags == ()


async def test_what_stands_in_names_tools_and_schemas_is_judged_too(place, engines, judge):
    await engines(answered())
    judging = await judge(says(CLEAN))
    function = {"name": "look", "description": "how to hide", "parameters": {"type": "object"}}
    schema = {"name": "secret", "schema": {"type": "object", "title": "hidden"}}
    body = chat(
        "one",
        tools=[{"type": "function", "function": function}],
        response_format={"type": "json_schema", "json_schema": schema},
    )
    body["messages"][0]["name"] = "mallory"
    assert (await place.post(body)).status == 200
    [texts] = asked(judging)
    for word in ("one", "mallory", "how to hide", "secret", "hidden"):
        assert any(word in text for text in texts)


async def test_what_is_flagged_before_is_refused_and_costs_nothing(place, engines, judge):
    engine, _ = await engines(answered()), await judge(says(FLAGGED))
    answer = await place.post(chat("bad", stream=True))
    assert (answer.status, answer.error["code"]) == (400, "content_filter")
    assert not engine.seen
    assert place.closes() == place.opens() == []
    assert place.refusals() == {"content_filter": 1}


async def test_token_ids_cannot_be_judged_and_are_refused(place, engines, judge):
    await engines(answered())
    await judge(says(CLEAN))
    answer = await place.post({"model": "chat", "prompt": [1, 2]}, "/v1/completions")
    assert (answer.status, answer.error["param"]) == (400, "prompt")


NO_VERDICT = {
    "an error": says(b"{}", status=500),
    "not JSON": says(b"<html>"),
    "no flag": says(b'{"results":[]}'),
    "a number": says(b'{"flagged":1}'),
    "a reset": Script(head=False, end="rst"),
    "too much": says(b" " * 70_000),
}


@pytest.mark.parametrize("why", NO_VERDICT)
async def test_without_a_verdict_it_goes_on_with_a_mark_or_not_at_all(place, engines, judge, why):
    engine = await engines(answered())
    await judge(NO_VERDICT[why])
    assert (await place.post(chat())).status == 200
    assert place.closes()[0].flags == ("unjudged",)
    await judge(NO_VERDICT[why], fail_open=False)
    answer = await place.post(chat())
    assert (answer.status, answer.error["code"]) == (503, "moderation_unavailable")
    assert len(engine.seen) == len(place.closes()) == 1


async def test_a_silent_judge_is_waited_for_as_long_as_it_may_take(place, engines, judge):
    await engines(answered())
    silent = await judge(says(CLEAN, hold=asyncio.Event()), timeout_ms=50)
    assert (await place.post(chat())).status == 200
    assert place.closes()[0].flags == ("unjudged",)
    await place.until(lambda: silent.connections == 0)


async def test_a_judge_is_not_waited_for_beyond_the_deadline(place, engines, judge):
    await engines(answered())
    silent = await judge(says(CLEAN, hold=asyncio.Event()))
    call = asyncio.create_task(place.post(chat(), x_deadline_ms="30000"))
    await place.until(lambda: silent.seen)
    place.push(31)
    assert (await call).status == 504
    assert place.refusals() == {"upstream_timeout": 1}


async def test_more_questions_than_may_wait_are_not_asked(place, engines, judge):
    place.shared.judges._limits = type(place.limits)(judge_calls=1, judge_waiting=1)
    hold = asyncio.Event()
    await engines(answered())
    judging = await judge(says(CLEAN, hold=hold), fail_open=False)
    asking = [asyncio.create_task(place.post(chat())) for _ in range(3)]
    done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result().status for task in done] == [503]
    await place.until(lambda: judging.seen)
    assert len(judging.seen) == 1
    hold.set()
    assert sorted(answer.status for answer in await asyncio.gather(*asking)) == [200, 200, 503]


async def test_a_client_that_leaves_takes_its_question_along(place, engines, judge):
    engine = await engines(answered())
    judging = await judge(says(CLEAN, hold=asyncio.Event()))
    async with place.stream(chat()):
        await place.until(lambda: judging.seen)
    await place.until(lambda: judging.connections == 0)
    assert not engine.seen
    assert not place.shared.calls


async def test_a_whole_answer_that_is_flagged_is_emptied_and_billed(place, engines, judge):
    await engines(answered("very bad", 7, 3))
    judging = await judge(says(FLAGGED), before=False, after=True)
    answer = await place.post(chat())
    [choice] = answer.json()["choices"]
    assert (answer.status, choice["finish_reason"]) == (200, "content_filter")
    assert choice["message"] == {"role": "assistant", "content": ""}
    assert asked(judging) == [["very bad"]]
    [closed] = place.closes()
    assert (closed.input_tokens, closed.output_tokens) == (7, 3)
    assert closed.finish_reason == "content_filter"


async def test_vectors_are_not_put_before_a_judge(place, engines, judge):
    await engines(Script(b'{"data":[{"embedding":[0.5]}]}', content_type=JSON))
    judging = await judge(says(FLAGGED), before=False, after=True, fail_open=False)
    answer = await place.post({"model": "chat", "input": "x"}, "/v1/embeddings")
    assert (answer.status, asked(judging)) == (200, [])
    assert place.closes()[0].flags == ()


async def test_a_stream_that_is_held_back_is_no_engine_that_does_not_begin(place, engines, judge):
    await engines(Script(chunk(role=True) + chunk("slow"), end="hold"))
    await judge(says(CLEAN), before=False, after=True)
    async with place.stream(chat(stream=True)):
        await place.until(lambda: any(call._windows for call in place.shared.calls))
        for _ in range(2):
            place.push(place.limits.between_bytes_seconds - 1)
            [call] = place.shared.calls
            call._attempt.on_data(chunk("er"))
        assert len(place.shared.calls) == 1


def tokens(first: int, last: int) -> list[str]:
    return [f"t{number} " for number in range(first, last + 1)]


async def test_a_stream_is_held_back_by_windows_of_64_tokens(place, engines, judge):
    await engines(streamed(*tokens(1, 150)))
    judging = await judge(says(CLEAN), before=False, after=True)
    answer = await place.post(chat(stream=True, stream_options={"include_usage": True}))
    assert content(answer.body) == "".join(tokens(1, 150))
    assert answer.body.endswith(DONE)
    windows = [texts[0] for texts in asked(judging)]
    assert all(
        one.split()[-1] != two.split()[-1] for one, two in zip(windows, windows[1:], strict=False)
    )
    assert windows[-1].endswith("t150 ")
    assert place.closes()[0].outcome == "complete"


async def test_not_one_token_of_a_window_is_shown_before_its_verdict(place, engines, judge):
    gate = asyncio.Semaphore(1 + 70)
    hold = asyncio.Event()
    body = chunk(role=True) + b"".join(
        chunk(text, usage=(7, n)) for n, text in enumerate(tokens(1, 150), 1)
    )
    engine = await engines(Script(body, split="frame", gate=gate, end="hold"))
    judging = await judge(says(CLEAN, hold=hold), says(FLAGGED), before=False, after=True)
    options = {"include_usage": True}
    async with place.stream(chat(stream=True, stream_options=options)) as stream:
        await place.until(lambda: judging.seen)
        assert stream.got == b""
        hold.set()
        await stream.until(b"t64 ")
        assert b"t71 " not in stream.got
        for _ in range(70):
            gate.release()
        await stream.until(b"[DONE]")
    shown = stream.got.partition(b"\r\n\r\n")[2]
    assert b"content_filter" in shown
    assert b"t129 " not in shown
    await asyncio.wait_for(engine.seen[0].closed.wait(), 30)
    await place.until(place.closes)
    [closed] = place.closes()
    assert (closed.outcome, closed.finish_reason) == ("complete", "content_filter")
    assert closed.output_tokens > 64  # billed by what was generated
    window, second = (texts[0] for texts in asked(judging))
    assert (window.split()[-1], second.split()[-1]) == ("t64", "t128")


async def test_a_window_is_of_tokens_though_chunks_hold_several(place, engines, judge):
    """As an engine sends them that guesses ahead, or is asked too seldom."""
    body = b"".join(chunk(f"t{n} ", usage=(7, 4 * n)) for n in range(1, 41))
    await engines(Script(body + chunk(finish="stop") + DONE, split="frame"))
    judging = await judge(says(CLEAN), before=False, after=True)
    answer = await place.post(chat(stream=True))
    assert content(answer.body) == "".join(tokens(1, 40))
    windows = [texts[0].split()[-1] for texts in asked(judging)]
    assert windows == ["t16", "t32", "t40"]


async def test_the_last_words_are_judged_before_the_stream_ends(place, engines, judge):
    await engines(streamed("a ", "b"))
    await judge(says(FLAGGED), before=False, after=True)
    answer = await place.post(chat(stream=True, stream_options={"include_usage": True}))
    chunks = datas(answer.body)
    assert content(answer.body) == ""
    assert [c["finish_reason"] for data in chunks for c in data["choices"]] == ["content_filter"]
    assert chunks[-1]["usage"]["completion_tokens"] == 2
    assert answer.body.endswith(DONE)


async def test_a_stream_without_a_verdict_ends_with_an_error_or_goes_on_marked(
    place, engines, judge
):
    await engines(streamed(*tokens(1, 100)))
    await judge(says(CLEAN), NO_VERDICT["an error"], before=False, after=True, fail_open=False)
    answer = await place.post(chat(stream=True))
    assert datas(answer.body)[-1]["error"]["code"] == "moderation_unavailable"
    assert b"[DONE]" not in answer.body
    await judge(NO_VERDICT["an error"], before=False, after=True)
    answer = await place.post(chat(stream=True))
    assert content(answer.body) == "".join(tokens(1, 100))
    assert "unjudged" in place.closes()[1].flags


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (200, CLEAN, Verdict.CLEAN),
        (200, FLAGGED, Verdict.FLAGGED),
        (200, json.dumps({"results": [{"flagged": False, "categories": {}}]}).encode(), "clean"),
        (200, b"[]", Verdict.UNKNOWN),
        (404, CLEAN, Verdict.UNKNOWN),
    ],
)
def test_what_a_judge_says(status, body, verdict):
    assert verdict_of(status, body) == verdict


def test_where_a_judge_is():
    assert address_of("https://judge.example/a?b=c") == ("judge.example", 443, True, "/a?b=c")
    assert address_of("http://127.0.0.1:8") == ("127.0.0.1", 8, False, "/")


async def test_a_judge_that_no_route_names_any_more_is_forgotten(place, engines, judge):
    await engines(answered())
    for _ in range(3):
        judging = await judge(says(CLEAN))
        assert (await place.post(chat())).status == 200
        assert len(place.shared.judges._by_address) == 1
    assert judging.connections == 1
    place.know(route())
    assert not place.shared.judges._by_address
    await place.until(lambda: judging.connections == 0)
