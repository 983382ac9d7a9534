"""Headers are held while a refusal is still possible; who asks is told its place meanwhile."""

import asyncio

import pytest

from control.gateway.waiting import progress, rules
from control.gateway.waiting.progress import Place
from control.gateway.waiting.rules import Pace
from tests.gateway.place import KEY, Stream, chat, replica, route
from tests.gateway.place import Place as Gateway
from tests.gateway.upstream import Upstream, answered, error, streamed
from tests.gateway.waiting.test_calls import busy, learn, waits

INTERACTIVE, STANDARD, BATCH = rules.ORDER
NOBODY = {INTERACTIVE: {}, STANDARD: {}, BATCH: {}}


@pytest.mark.parametrize(
    ("waiting", "ahead", "place"),
    [
        ({STANDARD: {1: 1}}, 0, Place(1, 1)),
        ({STANDARD: {1: 5}}, 2, Place(3, 5)),
        ({STANDARD: {1: 1, 2: 100}}, 0, Place(2, 101)),
        ({INTERACTIVE: {2: 3}, STANDARD: {1: 1}}, 0, Place(4, 4)),
        ({INTERACTIVE: {2: 100}, STANDARD: {1: 1}}, 0, Place(7, 101)),  # its reserved share
        ({STANDARD: {1: 2}, BATCH: {1: 1}}, 1, Place(3, 3)),
    ],
)
def test_a_place_is_the_turn_that_will_be_its_own(waiting, ahead, place):
    assert progress.place(NOBODY | waiting, STANDARD, 1, ahead) == place


@pytest.mark.parametrize(
    ("pace", "is_loading", "text"),
    [
        (Pace(0.47), False, b": queued 3 of 12, about 1.4 s\n\n"),
        (None, False, b": queued 3 of 12\n\n"),
        (None, True, b": the model is loading, queued 3 of 12\n\n"),
    ],
)
def test_what_a_call_that_waits_is_told(pace, is_loading, text):
    assert progress.comment(Place(3, 12), pace, is_loading=is_loading) == text


def test_how_long_starts_took_is_told_to_calls_that_are_held_for_one():
    told = progress.comment(Place(1, 2), None, is_loading=True, start_seconds=46.6)
    assert told == b": the model is loading (a start takes about 47 s), queued 1 of 2\n\n"


def asks(place: Gateway, body: dict) -> Stream:
    stream = place.stream(body, KEY)
    stream._sent = stream._sent.replace(b"host: x\r\n", b"host: x\r\nx-weir-progress: 1\r\n", 1)
    return stream


async def test_who_asks_is_told_at_once_and_each_second(tmp_path):
    async with busy(tmp_path) as place:
        place.engine.scripts = [streamed("fine"), *place.engine.scripts]
        await learn(place, 2)
        await waits(place, "before")
        async with asks(place, chat("asks", stream=True)) as stream:
            got = await stream.until(b": queued 2 of 2, about 4.0 s\n\n")
            assert got.startswith(b"HTTP/1.1 200 ")
            stream.got = b""
            place.push(1)
            await stream.until(b": queued 2 of 2, about 4.0 s\n\n")
            place.engine.scripts.insert(0, answered())
            place.go_on.set()
            got = await stream.until(b"[DONE]")
            assert got.count(b"HTTP/1.1 ") == 0
            assert b'"fine"' in got


async def test_a_route_may_tell_all_but_only_streams_can_be_told(tmp_path):
    async with busy(tmp_path) as place:
        place.know(route(progress=True))
        whole = await waits(place, "whole")
        async with place.stream(chat("told", stream=True)) as stream:
            await stream.until(b": queued 2 of 2\n\n")
        place.push(11)
        assert (await whole).status == 503


async def test_once_the_headers_are_sent_a_wait_in_vain_is_an_event(tmp_path):
    async with busy(tmp_path) as place, asks(place, chat("asks", stream=True)) as stream:
        await stream.until(b": queued 1 of 1\n\n")
        place.push(11)
        got = await stream.until(b"0\r\n\r\n")
        assert b'"code":"server_is_overloaded"' in got
        assert b"[DONE]" not in got
        assert place.refusals() == {"server_is_overloaded": 1}
        assert len(place.opens()) == 1


async def test_headers_are_held_till_the_limit_so_that_a_refusal_is_one(tmp_path):
    async with busy(tmp_path) as place:
        call = await waits(place, "quiet", stream=True)
        place.push(9)
        place.push(2)
        refused = await call
        assert (refused.status, refused.error["code"]) == (503, "server_is_overloaded")


async def test_a_long_wait_for_a_model_shows_that_it_goes_on(tmp_path):
    engine = Upstream(streamed("fine"))
    async with Gateway(tmp_path) as place, place.stream(chat(stream=True)) as stream:
        await place.until(lambda: len(place.shared.waiting) == 1)
        place.push(9)
        assert not place.shared.calls.copy().pop()._delivery.started
        place.push(2)
        got = await stream.until(b"\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 200 ")
        place.push(16)
        await stream.until(b": keep-alive\n\n")
        place.know_replicas(replica(1, await engine.start()))
        got = await stream.until(b"[DONE]")
        assert got.count(b'"role":"assistant"') + got.count(b'"role": "assistant"') == 1
        await engine.stop()


async def test_a_call_that_was_committed_may_still_move_to_another_replica(place, engines):
    stuck = await engines(error(500, hold=asyncio.Event()))
    place.know(route(commit_after_seconds=3))
    async with place.stream(chat(stream=True)) as stream:
        await place.until(lambda: stuck.seen)
        place.push(4)
        await stream.until(b"\r\n\r\n")
        await engines(streamed("fine"))
        stuck.scripts[0].hold.set()
        got = await stream.until(b"[DONE]")
        assert b'"fine"' in got
        assert b"error" not in got
    assert place.closes()[0].attempts == 2
