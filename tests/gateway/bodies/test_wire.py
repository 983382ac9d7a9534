"""Bodies at the door: what is refused, by which name, and what an engine gets."""

import gzip
import json
import zlib

import msgspec
import pytest

from control.gateway import errors
from control.gateway.bodies import encoding, wire
from tests.gateway.place import chat


def parse(body: object, endpoint: str = "chat.completions") -> wire.Ask:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return wire.parse(endpoint, raw, depth_max=64)


def refusal(body: object, endpoint: str = "chat.completions") -> errors.Refusal:
    with pytest.raises(errors.Refusal) as raised:
        parse(body, endpoint)
    return raised.value


def raw_chat(members: str) -> bytes:
    return b'{"messages":[{"role":"user","content":"x"}],' + members.encode() + b"}"


@pytest.mark.parametrize(
    ("changes", "param", "code"),
    [
        ({"model": None}, "model", "missing_required_parameter"),
        ({"messages": None}, "messages", "missing_required_parameter"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": [{"role": "king"}]}, "messages[0].role", "invalid_value"),
        ({"messages": ["x"]}, "messages[0]", "invalid_type"),
        (
            {"messages": [{"role": "user", "content": 5}]},
            "messages[0].content",
            "invalid_type",
        ),
        ({"model": 5}, "model", "invalid_type"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"temperature": 2.1}, "temperature", "invalid_value"),
        ({"temperature": True}, "temperature", "invalid_type"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"max_tokens": 1.5}, "max_tokens", "invalid_type"),
        ({"n": 9}, "n", "invalid_value"),
        ({"stop": ["a"] * 5}, "stop", "invalid_value"),
        ({"stop": [1]}, "stop[0]", "invalid_type"),
        ({"stop": 1}, "stop", "invalid_type"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
        (
            {"stream": True, "stream_options": {"other": True}},
            "stream_options.other",
            "unknown_parameter",
        ),
        (
            {"stream": True, "stream_options": {"include_usage": 1}},
            "stream_options.include_usage",
            "invalid_type",
        ),
        ({"kv_transfer_params": {}}, "kv_transfer_params", "unknown_parameter"),
        ({"chat_template": "x"}, "chat_template", "unknown_parameter"),
        ({"x" * 100: 1}, "x" * 64, "unknown_parameter"),
    ],
)
def test_what_is_refused_names_the_member(changes, param, code):
    refused = refusal(chat(**changes))
    assert (refused.status, refused.param, refused.code) == (400, param, code)


@pytest.mark.parametrize(
    "members",
    [
        '"model":"small","model":"big"',
        '"model":"big","model":"small"',
        '"model":"small","mod\\u0065l":"big"',
        '"model":"small","stream":false,"stream":true',
        '"model":"small","max_tokens":1,"max_tokens":9',
        '"model":"small","tools":[{"type":"function","a":1,"a":2}]',
    ],
)
def test_k05_a_member_given_twice_is_refused(members):
    refused = refusal(raw_chat(members))
    assert refused.status == 400
    assert "more than once" in refused.message


def nested(depth: int) -> dict:
    """A body whose deepest level is `depth`; the body itself is the first."""
    value: dict = {}
    for _ in range(depth - 5):
        value = {"a": value}
    return chat(tools=[{"type": "function", "function": {"name": "f", "parameters": value}}])


H04_REFUSED = {
    "a lone high surrogate": raw_chat('"model":"m","user":"\\ud83d"'),
    "a lone low surrogate": raw_chat('"model":"m","user":"\\ude00"'),
    "a high surrogate before a letter": raw_chat('"model":"m","user":"\\ud83dx"'),
    "a lone surrogate in a key": raw_chat('"model":"m","\\ud800":1'),
    "depth 65": json.dumps(nested(65)).encode(),
    "depth 1,000": raw_chat('"model":"m","tools":' + "[" * 1000 + "]" * 1000),
    "depth 100,000": raw_chat('"model":"m","tools":' + "[" * 100_000 + "]" * 100_000),
    "depth 100,000, unknown member": raw_chat('"m":' + '{"a":' * 100_000 + "1" + "}" * 100_000),
    "not a number": raw_chat('"model":"m","temperature":NaN'),
    "a number out of range": raw_chat('"model":"m","temperature":1e999'),
    "trailing data": b"{}{}",
    "an array": b"[]",
    "nothing": b"",
    "broken UTF-8": b'{"model":"\xc3\x28"}',
    "an encoded surrogate": b'{"model":"\xed\xa0\x80"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
}


@pytest.mark.parametrize("what", H04_REFUSED)
def test_h04_hostile_bodies_are_refused_at_the_door(what):
    refused = refusal(H04_REFUSED[what])
    assert (refused.status, refused.type) == (400, "invalid_request_error")
    assert "msgspec" not in refused.message


def test_h04_a_surrogate_pair_and_depth_64_are_fine():
    assert parse(raw_chat('"model":"m","user":"\\ud83d\\ude00"')).fields["user"] == "😀"
    assert parse(nested(64)).model == "chat"


def test_null_is_as_good_as_absent():
    ask = parse(chat(stop=None, max_tokens=None, stream=None, temperature=None))
    assert (ask.max_tokens, ask.stream) == (None, False)
    assert set(ask.fields) == {"messages"}


def test_the_newer_name_of_max_tokens_wins():
    assert parse(chat(max_tokens=5, max_completion_tokens=9)).max_tokens == 9


@pytest.mark.parametrize(
    ("prompt", "choices"),
    [("x", 1), (["x", "y"], 2), ([1, 2, 3], 1), ([[1, 2], [3]], 2)],
)
def test_a_prompt_may_be_text_or_tokens_or_several(prompt, choices):
    ask = parse({"model": "m", "prompt": prompt, "n": 2}, "completions")
    assert ask.choices == 2 * choices


@pytest.mark.parametrize("prompt", [[], [None], ["x", 1], [True], {}, 5])
def test_other_prompts_are_refused(prompt):
    assert refusal({"model": "m", "prompt": prompt}, "completions").param == "prompt"


def for_engine(body: dict, **changes) -> dict:
    given = {"served_name": "m", "stop": (), "max_tokens": None}
    return msgspec.json.decode(wire.for_engine(parse(body), **(given | changes)))


def test_the_engine_gets_its_own_name_and_only_judged_members():
    sent = for_engine(chat(metadata={"a": "b"}, store=True, temperature=1))
    assert sent == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "temperature": 1,
    }


def test_the_engine_gets_the_stop_words_that_were_put_together_for_it():
    assert for_engine(chat(), stop=("\n\n",))["stop"] == ["\n\n"]
    assert for_engine(chat(stop=["x"]), stop=("x", "\n\n"))["stop"] == ["x", "\n\n"]
    assert for_engine(chat(stop=["x"]), stop=())["stop"] == ["x"]


BODY = b'{"a":1}'


@pytest.mark.parametrize(
    ("raw", "name"),
    [(gzip.compress(BODY), "gzip"), (zlib.compress(BODY), "deflate")],
)
def test_h01_compressed_bodies_are_decoded(raw, name):
    assert encoding.decompress(raw, name, bytes_max=100) == BODY


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (gzip.compress(b"0" * 101), 413),
        (gzip.compress(BODY)[:-4], 400),
        (gzip.compress(BODY) + b"x", 400),
        (BODY, 400),
        (b"", 400),
    ],
)
def test_h01_bombs_and_torn_bodies_are_refused(raw, status):
    with pytest.raises(errors.Refusal) as raised:
        encoding.decompress(raw, "gzip", bytes_max=100)
    assert raised.value.status == status
