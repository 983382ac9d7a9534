"""Failure cases from the field about streams that break, over real sockets."""

import pytest

from tests.gateway.place import chat
from tests.gateway.streams.test_cases import ROLE, content, datas, played
from tests.gateway.upstream import Script, chunk, streamed


@pytest.mark.parametrize("name", ["S06-a", "S06-b"])
async def test_s06_a_broken_stream_ends_with_an_error_not_with_done(place, engines, name):
    engine = await engines(played(name))
    answer = await place.post(chat(stream=True))
    assert answer.status == 200
    assert b"[DONE]" not in answer.body
    assert datas(answer.body)[-1]["error"]["code"] == "upstream_error"
    [closed] = place.closes()
    assert closed.outcome == "truncated"
    assert place.shared.replicas._live[engine.info.id].failures == 1


async def test_s06_done_without_a_finish_is_passed_on_and_recorded(place, engines):
    engine = await engines(played("S06-c"))
    answer = await place.post(chat(stream=True))
    assert answer.body == engine.scripts[0].body
    [closed] = place.closes()
    assert closed.outcome == "incomplete"
    assert place.shared.replicas._live[engine.info.id].failures == 1


async def test_s06_a_missing_done_is_added_to_a_whole_answer(place, engines):
    engine = await engines(played("S06-d"))
    answer = await place.post(chat(stream=True))
    assert answer.body.count(b"[DONE]") == 1
    [closed] = place.closes()
    assert (closed.outcome, closed.input_tokens, closed.output_tokens) == ("complete", 5, 2)
    assert place.shared.replicas._live[engine.info.id].failures == 0


async def test_s06_a_whole_answer_that_breaks_off_is_a_502(place, engines):
    body = b'{"choices":[{"index":0,"mess'
    await engines(Script(body, content_type="application/json; x", end="rst"))
    answer = await place.post(chat())
    assert (answer.status, answer.error["code"]) == (502, "upstream_error")


async def test_s07_an_error_as_first_event_is_a_proper_status(place, engines):
    await engines(played("S07-a"))
    answer = await place.post(chat(stream=True))
    assert (answer.status, answer.error["code"]) == (504, "upstream_timeout")
    assert answer.headers["content-type"].startswith("application/json")
    [closed] = place.closes()
    assert (closed.outcome, closed.output_tokens, closed.input_tokens) == ("upstream_error", 0, 0)


async def two_engines(engines, *scripts: Script):
    """Two replicas that play `scripts` in the order in which either is asked."""
    one, two = await engines(*scripts), await engines()
    two.scripts = one.scripts
    return one, two


async def test_s07_an_error_as_first_event_is_tried_elsewhere(place, engines):
    one, two = await two_engines(engines, played("S07-a"), streamed("fine"))
    answer = await place.post(chat(stream=True))
    assert (answer.status, answer.text()) == (200, "fine")
    [closed] = place.closes()
    assert (closed.attempts, closed.outcome) == (2, "complete")
    assert (len(one.seen), len(two.seen)) == (1, 1)


async def test_s07_an_error_after_tokens_ends_the_stream_and_is_not_retried(place, engines):
    one, two = await two_engines(engines, played("S07-b"), streamed("never"))
    answer = await place.post(chat(stream=True))
    assert content(answer.body) == "ab"
    assert [data["error"]["code"] for data in datas(answer.body) if "error" in data] == [
        "upstream_error"
    ]
    assert b"cuda" not in answer.body
    [closed] = place.closes()
    assert (closed.outcome, closed.input_tokens, closed.output_tokens) == ("upstream_error", 9, 2)
    assert len(one.seen) + len(two.seen) == 1


BROKEN = {
    "before the head": Script(head=False, end="rst"),
    "after the head": Script(b"", end="rst"),
    "after the role alone": Script(ROLE, end="rst"),
}


@pytest.mark.parametrize("where", BROKEN)
async def test_t04_a_stream_that_breaks_before_its_first_token_is_tried_elsewhere(
    place, engines, where
):
    await two_engines(engines, BROKEN[where], streamed("fine"))
    answer = await place.post(chat(stream=True))
    assert (answer.status, answer.text()) == (200, "fine")
    assert answer.body.count(b'"role"') == 1
    assert len({data["id"] for data in datas(answer.body)}) == 1
    assert len(place.opens()) == len(place.closes()) == 1
    assert place.closes()[0].attempts == 2


async def test_t04_d_a_stream_that_breaks_after_a_token_is_not(place, engines):
    one, two = await two_engines(
        engines, Script(ROLE + chunk("one", usage=(7, 1)), end="rst"), streamed("never")
    )
    answer = await place.post(chat(stream=True))
    assert content(answer.body) == "one"
    assert datas(answer.body)[-1]["error"]["code"] == "upstream_error"
    assert len(one.seen) + len(two.seen) == 1
    [closed] = place.closes()
    assert (closed.outcome, closed.output_tokens, closed.attempts) == ("truncated", 1, 1)
    assert len(place.opens()) == 1


async def test_t04_all_replicas_broken_is_a_502_with_one_record(place, engines):
    await two_engines(engines, BROKEN["before the head"])
    answer = await place.post(chat(stream=True))
    assert (answer.status, answer.error["code"]) == (502, "upstream_error")
    [closed] = place.closes()
    assert (closed.attempts, closed.output_tokens, closed.input_tokens) == (2, 0, 0)
