"""What a call tells of its attempts is what its engines counted: each of them, to the token."""

import pytest

from control.metering.drift.attempts import attempts_of
from tests.gateway.calls.test_continuation import (  # noqa: F401  `stubs` is a fixture
    TOKENS,
    USAGE,
    Faults,
    post,
    stubs,
)
from tests.gateway.place import chat, route
from tests.gateway.streams.test_stops import FIVE
from tests.gateway.upstream import Script, streamed


def counted(engine) -> tuple[int, int]:
    counters = engine.stub.counters
    return counters.prompt_tokens, counters.generation_tokens


def told(closes, replica_id: int) -> tuple[int, int]:
    """By rows where there are some, else by the event itself."""
    tokens_in = tokens_out = 0
    for close in closes:
        rows = attempts_of(close) or [close]
        ours = [row for row in rows if row.replica_id == replica_id]
        tokens_in += sum(row.input_tokens for row in ours)
        tokens_out += sum(row.output_tokens for row in ours)
    return tokens_in, tokens_out


async def test_a_whole_answer_needs_no_row(place, stubs):  # noqa: F811
    [engine] = await stubs({})
    await post(place, **USAGE)
    await place.post(chat("hello"))
    assert [attempts_of(close) for close in place.closes()] == [[], []]
    assert told(place.closes(), 1) == counted(engine)


async def test_of_several_answers_an_engine_reads_the_prompt_once_each(place, stubs):  # noqa: F811
    await stubs({})
    await place.post(chat("hello", n=3))
    [close] = place.closes()
    [row] = attempts_of(close)
    assert (close.choices, row.input_tokens) == (3, 3 * close.input_tokens)


@pytest.mark.parametrize("times", [1, 2])
async def test_each_engine_of_an_answer_that_went_on_has_its_own_part(place, stubs, times):  # noqa: F811
    engines = await stubs({}, {}, {})
    Faults(engines, *[{"fail_after_tokens": 3, "fail_with": "rst"}] * times)
    await post(place, **USAGE, max_tokens=64)
    [close] = place.closes()
    assert (close.outcome, close.attempts) == ("complete", times + 1)
    assert [row.purpose for row in attempts_of(close)] == ["continuation"] * times + ["call"]
    for number, engine in enumerate(engines, 1):
        assert told([close], number) == counted(engine)
    assert sum(counted(engine)[1] for engine in engines) == TOKENS


async def test_what_was_sent_and_never_told_of_is_known_at_most(place, engines):
    await engines(Script(head=False, end="rst"))
    await place.post(chat("hello"))
    [close] = place.closes()
    [row] = attempts_of(close)
    assert (close.input_tokens, row.outcome, row.tokens_source) == (0, close.outcome, "estimated")
    assert row.input_tokens == close.untold > 0


async def test_a_stop_word_of_ours_ends_an_engine_that_may_have_gone_on(place, engines):
    place.know(route(stop=FIVE))
    await engines(streamed("a ", "STOP", " more"))
    await place.post(chat(stream=True))
    [close] = place.closes()
    assert (close.outcome, close.cut) == ("complete", True)
    [row] = attempts_of(close)
    assert row.cut
