"""A chat that is judged as a whole is what it is when each of its members is judged."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from control.gateway.bodies import ordinary, wire
from control.gateway.errors import Refusal
from tests.gateway.place import chat

DEPTH = 64
TEXTS = st.text(max_size=8) | st.sampled_from(['":', '" :', "\\u0022:", 'a":"b', "水\n", "\x00"])
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant", "tool", 1, None])},
        optional={"content": TEXTS | st.none() | st.just([]), "name": TEXTS},
    ),
    max_size=3,
)
NUMBERS = st.integers(-2, 12) | st.floats(allow_nan=False) | st.booleans() | st.none()
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "model": TEXTS | st.integers(),
        "messages": MESSAGES,
        "stream": st.booleans() | st.none() | st.just(1),
        "max_tokens": NUMBERS | st.just(10_000_001),
        "temperature": NUMBERS,
        "top_p": NUMBERS,
        "seed": NUMBERS | st.sampled_from([2**63, -(2**63), 2**64]),
        "stream_options": st.dictionaries(
            st.sampled_from(["include_usage", "continuous_usage_stats", "other"]),
            st.booleans() | st.none(),
        ),
        "stop": TEXTS,
        "n": st.integers(1, 2),
        "metadata": st.just({}),
    },
)
WRITTEN = st.sampled_from(
    [
        {},
        {"separators": (",", ":")},
        {"separators": (" , ", " : ")},
        {"ensure_ascii": False},
        {"indent": 1},
    ]
)
ORDINARY = chat(max_tokens=4, temperature=0, stream=True, seed=1)


def parsed(raw: bytes) -> wire.Ask | str:
    try:
        return wire.parse("chat.completions", raw, depth_max=DEPTH)
    except Refusal as refusal:
        return refusal.message


def engine_gets(ask: wire.Ask) -> bytes:
    return wire.for_engine(ask, served_name="m", stop=(), max_tokens=ask.max_tokens)


@settings(max_examples=500)
@given(BODIES, WRITTEN)
@example(ORDINARY, {})
def test_judged_as_a_whole_or_by_members_it_is_the_same(body, written):
    raw = json.dumps(body, **written).encode("utf-8", "surrogatepass")
    ask = ordinary.read(raw, depth_max=DEPTH)
    if ask is not None:
        other = parsed(raw)
        assert ask == other
        assert engine_gets(ask) == engine_gets(other)


@settings(max_examples=300)
@given(st.sampled_from(sorted(ORDINARY)), TEXTS, st.sampled_from(['"%s":', '"%s" :', '"%s"\n:']))
def test_a_repeated_member_is_not_passed_over(name, value, written):
    """Compared after unescaping, and wherever it is."""
    first = f"\\u{ord(name[0]):04x}{name[1:]}"
    for repeated in (name, first):
        body = json.dumps(ORDINARY)[:-1] + "," + written % repeated + json.dumps(value) + "}"
        raw = body.encode("utf-8", "surrogatepass")
        assert ordinary.read(raw, depth_max=DEPTH) is None
        inside = json.dumps(chat(value))[:-3] + "," + written % "content" + '"x"}]}'
        assert ordinary.read(inside.encode("utf-8", "surrogatepass"), depth_max=DEPTH) is None


@pytest.mark.parametrize("more", [{}, {"stream": False}, {"temperature": 0.7}, {"seed": -1}])
def test_what_most_clients_send_is_read_as_a_whole(more):
    raw = json.dumps(ORDINARY | more | {"stream_options": {"include_usage": True}}).encode()
    plain = json.dumps(chat("hi", **more)).encode()
    assert ordinary.read(plain, depth_max=DEPTH) == parsed(plain)
    assert (ordinary.read(raw, depth_max=DEPTH) is None) is (more.get("stream") is False)


@pytest.mark.parametrize(
    "body",
    [chat(stop=["x"]), chat(tools=[]), chat([{"type": "text", "text": "a"}]), chat(n=2), [], 1],
)
def test_all_else_is_left_to_be_judged_member_by_member(body):
    assert ordinary.read(json.dumps(body).encode(), depth_max=DEPTH) is None


def test_nothing_is_read_as_a_whole_that_is_nested_too_deeply_or_large():
    raw = json.dumps(ORDINARY).encode()
    assert ordinary.read(raw, depth_max=3) is None
    assert ordinary.read(json.dumps(chat("x" * 70_000)).encode(), depth_max=DEPTH) is None
