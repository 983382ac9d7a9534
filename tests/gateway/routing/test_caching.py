"""What an interrupted stream found in its engine's cache is estimated, for the tenant's gain."""

import asyncio
import json

import pytest

from control.gateway.routing.caching import CacheHits, Density, estimated
from tests.gateway.place import chat
from tests.gateway.upstream import DONE, Script, answered, chunk, event, usage_of


@pytest.mark.parametrize(
    ("tokens", "ratio", "cached"),
    [(100, 0.0, 0), (100, 0.01, 16), (100, 0.5, 64), (100, 0.99, 100), (7, 0.2, 7), (0, 1.0, 0)],
)
def test_an_estimate_is_whole_blocks_rounded_up(tokens, ratio, cached):
    assert estimated(tokens, ratio) == cached


def test_a_prompt_that_no_engine_counted_is_as_dense_as_those_of_late():
    density = Density()
    assert density.tokens(400, most=140) == 100  # the usual four bytes, as nothing is known
    density.saw(10, 8)  # a short one, most of it template
    density.saw(200, 1000)
    assert 80 <= density.tokens(400, most=140) <= 85
    assert density.tokens(4000, most=140) == 140
    assert density.tokens(0, most=0) == 1


def test_the_best_of_the_last_minutes_counts():
    hits = CacheHits()
    assert hits.ratio(0) == 0
    hits.saw(50, 100, 0)
    hits.saw(10, 100, 10)
    hits.saw(5, 0, 20)
    assert hits.ratio(299) == 0.5
    assert hits.ratio(301) == 0
    hits.saw(10, 100, 310)
    assert hits.ratio(310) == 0.1


def told(cached: int) -> bytes:
    usage = usage_of(100, 2) | {"prompt_tokens_details": {"cached_tokens": cached}}
    return event({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": usage})


def body(*more: bytes) -> bytes:
    return (
        chunk(role=True) + chunk("a", usage=(100, 1)) + chunk("b", usage=(100, 2)) + b"".join(more)
    )


WHOLE = (chunk(finish="stop", usage=(100, 2)),)


async def test_a_whole_stream_says_what_was_cached_and_nothing_is_estimated(place, engines):
    await engines(*(Script(body(*WHOLE, told(cached), DONE)) for cached in (48, 0)))
    for _ in range(2):
        await place.post(chat(stream=True))
    told_ = [(closed.cached_input_tokens, closed.cached_source) for closed in place.closes()]
    assert told_ == [(48, ""), (0, "")]


async def test_an_interrupted_stream_is_estimated_by_what_the_engine_did_of_late(place, engines):
    engine = await engines(Script(body(*WHOLE, told(48), DONE)))
    await place.post(chat(stream=True))
    engine.scripts = [Script(body(), end="hold")]
    async with place.stream(chat(stream=True)) as stream:
        await stream.until(b'"b"')
    await place.until(lambda: len(place.closes()) == 2)
    closed = place.closes()[1]
    assert (closed.input_tokens, closed.cached_input_tokens) == (100, 48)
    assert (closed.cached_source, closed.tokens_source) == ("estimated", "engine")


async def test_what_the_engines_counters_say_is_taken_too(place, engines):
    await engines(Script(body(), end="rst"))
    [live] = place.shared.replicas._live.values()
    sample = {"at": place.time.wall(), "replica_id": 1, "label": "d#1"}
    sample["prompt_tokens_per_second"] = 100.0
    sample["cached_prompt_tokens_per_second"] = 30.0
    place.shared.telemetry._heard([live], [json.dumps(sample).encode()])
    await asyncio.wait_for(place.post(chat(stream=True)), 30)
    [closed] = place.closes()
    assert (closed.outcome, closed.cached_input_tokens) == ("truncated", 32)
    assert closed.cached_source == "estimated"


async def test_a_call_left_before_the_engine_counted_pays_for_such_a_prompt(place, engines):
    engine = await engines(answered(), Script(b"", end="hold"))
    body = chat(messages=[{"role": "user", "content": "word " * 100}])
    await place.post(body)
    async with place.stream(body | {"stream": True}) as stream:
        await place.until(lambda: len(engine.seen) == 2)
        stream.writer.transport.abort()
    await place.until(lambda: len(place.closes()) == 2)
    whole, left = place.closes()
    assert (left.outcome, left.tokens_source) == ("client_closed", "estimated")
    assert left.input_tokens <= whole.input_tokens
