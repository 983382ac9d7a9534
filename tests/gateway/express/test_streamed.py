"""A stream on the short way is what it is on the long one, whatever its engine says."""

import pytest

from tests.gateway.express.streaming import (
    FINE,
    FRAMES,
    GOOD,
    ONE,
    ROLE,
    STOP,
    TWO,
    USED,
    as_vllm,
    of,
    one_way,
)
from tests.gateway.express.test_express import taken
from tests.gateway.place import route
from tests.gateway.upstream import DONE, Script, answered, chunk, error, event, usage_chunk

__all__ = ["taken"]

BODIES = {
    "good": of(*GOOD),
    "tokens": as_vllm(),
    "tokens with ids": as_vllm(ids=True),
    "tokens without usage": as_vllm(usage=False),
    "no role first": of(ONE, TWO, STOP, USED, DONE),
    "nothing but its end": of(ROLE, STOP, USED, DONE),
    "cut short": of(ROLE, ONE, TWO, chunk(finish="length"), USED, DONE),
    "an odd reason": of(ROLE, ONE, TWO, chunk(finish='say "%"'), USED, DONE),
    "aborted": of(ROLE, ONE, TWO, chunk(finish="abort"), USED, DONE),
    "ended twice": of(ROLE, ONE, TWO, STOP, STOP, USED, DONE),
    "usage at the end alone": of(ROLE, chunk("one"), chunk("two"), STOP, USED, DONE),
    "no usage": of(ROLE, chunk("one"), chunk("two"), STOP, DONE),
    "usage of nothing": of(ROLE, ONE, STOP, usage_chunk(0, 0), DONE),
    "cached": of(ROLE, ONE, TWO, STOP, USED, DONE).replace(
        b'"completion_tokens": 2', b'"prompt_tokens_details":{"cached_tokens":4},'
        b'"completion_tokens_details":{"reasoning_tokens":1},"completion_tokens": 2'
    ),
    "without its last word": of(ROLE, ONE, TWO, STOP, USED),
    "broken off": of(ROLE, ONE, TWO),
    "broken off in an event": of(ROLE, ONE, TWO[:30]),
    "broken off before a token": of(ROLE),
    "unfinished": of(ROLE, ONE, TWO, DONE),
    "comments": of(b": hello\n\n", ROLE, b": and\n\n", ONE, b": on\n\n", TWO, STOP, USED, DONE),
    "more behind the end": of(*GOOD, ONE),
    "not JSON": of(ROLE, ONE, event("{"), TWO, STOP, USED, DONE),
    "an error at once": of(event({"error": {"message": "no", "code": 400}}), DONE),
    "an error": of(ROLE, event({"error": {"message": "no", "code": 400}}), DONE),
    "an error in between": of(ROLE, ONE, event({"error": {"message": "no", "code": 500}}), DONE),
    "odd line ends": of(*GOOD).replace(b"\n", b"\r\n"),
    "thoughts": of(*GOOD).replace(b'"content": "one"', b'"reasoning": "one"'),
    "a second choice": of(ROLE, ONE, chunk("b", index=1), STOP, chunk(finish="x", index=1), DONE),
}  # fmt: skip
ANSWERS = {
    "an answer": answered(),
    "refused": error(400, "too long"),
    "busy": error(503),
    "nothing": Script(b""),
    "lost": Script(b"{", head=False, end="rst"),
    "of another status": Script(of(*GOOD), status=201),
}
ASKED = {
    "plain": {},
    "usage": {"stream_options": {"include_usage": True}},
    "running usage": {
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "max_tokens": 9,
    },
    "a seed": {"seed": 3},
    "a seed, and no chance": {"seed": 3, "temperature": 0},
    "chance": {"temperature": 0.5, "top_p": 0.5, "stream_options": {}},
}


async def compare(place, engine, script: Script, **asked) -> None:
    both = []
    for long in (False, True):
        place.push(60)  # back in the rotation, if it left
        await place.until(lambda: all(not one.health.out for one in place.shared.replicas.all()))
        await one_way(place, engine, FINE, long=long)
        both.append(await one_way(place, engine, script, long=long, **asked))
    short, long = both
    failures = short.pop("health"), long.pop("health")
    assert failures[1] in (failures[0], 2 * failures[0])
    assert short == long


@pytest.mark.parametrize(
    ("body", "framing"),
    [(body, framing) for body in BODIES for framing in ("frames", "at once")]
    + [(body, framing) for body in ("good", "tokens") for framing in ("in bytes", "bare", "torn")],
)
async def test_a_stream_is_the_same_on_both_ways(place, engines, taken, body, framing):
    engine = await engines(engine="vllm", served_name="chat")
    await compare(place, engine, Script(BODIES[body], **FRAMES[framing]))
    assert taken == [True, True, False, False]


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("served", ["chat", "m"])
@pytest.mark.parametrize("kind", ["vllm", "external"])
async def test_what_is_asked_is_the_same_on_both_ways(place, engines, taken, asked, served, kind):
    place.know(route(output_tokens_max=100, sample=0.0, on_replica_loss="continue"))
    engine = await engines(engine=kind, served_name=served)
    await compare(place, engine, Script(as_vllm(ids=True), **FRAMES["frames"]), **ASKED[asked])
    assert taken == [True, True, False, False]


@pytest.mark.parametrize("answer", ANSWERS)
async def test_what_is_no_stream_is_the_same_on_both_ways(place, engines, taken, answer):
    engine = await engines(engine="vllm", served_name="chat")
    await compare(place, engine, ANSWERS[answer])
    assert taken == [True, True, False, False]
