"""Whatever is inside a call: it is read, or refused by its path, and breaks nothing."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.gateway import errors
from control.gateway.bodies import wire

_NAMES = st.sampled_from(
    (
        *("type", "text", "role", "content", "name", "input", "source", "media_type", "data"),
        *("tool_use_id", "id", "thinking", "input_schema", "call_id", "arguments", "output"),
        *("image_url", "input_audio", "format", "schema", "summary", "effort", "url"),
    )
)  # fmt: skip
_WORDS = st.sampled_from(
    (
        *("text", "image", "document", "tool_use", "tool_result", "thinking", "base64", "url"),
        *("user", "assistant", "system", "developer", "message", "function_call", "reasoning"),
        *("function_call_output", "input_text", "input_image", "input_audio", "function", "auto"),
        *("enabled", "json_schema", "tool", "custom", "data:image/png;base64,AA", "http://a/"),
    )
)
_SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | _WORDS
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=12,
)
_MEMBERS = {
    "messages": ("messages", "system", "tools", "tool_choice", "thinking", "output_config"),
    "messages.count_tokens": ("messages", "system", "tools", "thinking"),
    "responses": ("input", "instructions", "tools", "tool_choice", "reasoning", "text", "include"),
    "chat.completions": ("messages", "tools", "tool_choice", "response_format", "stop"),
}
REFUSALS = (
    errors.InvalidType,
    errors.InvalidValue,
    errors.MissingParameter,
    errors.UnknownParameter,
)
_LEAST = {
    "messages": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 5},
    "messages.count_tokens": {"messages": [{"role": "user", "content": "a"}]},
    "responses": {"input": "a"},
    "chat.completions": {"messages": [{"role": "user", "content": "a"}]},
}


@pytest.mark.parametrize("endpoint", _MEMBERS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_call_is_read_or_refused(endpoint, data):
    changed = data.draw(
        st.dictionaries(st.sampled_from(_MEMBERS[endpoint]), _VALUES, min_size=1, max_size=2)
    )
    body = {"model": "m"} | _LEAST[endpoint] | changed
    try:
        ask = wire.parse(endpoint, json.dumps(body).encode(), depth_max=64)
    except REFUSALS:
        return
    sent = wire.for_engine(ask, served_name="m", stop=(), max_tokens=5)
    assert "messages" in json.loads(sent)


@pytest.mark.parametrize("role", [[], {}, [["user"]], 3, None, "boss"])
def test_a_role_that_is_none_is_refused(role):
    body = {"model": "m", "messages": [{"role": role, "content": "a"}]}
    with pytest.raises(errors.InvalidValue) as refused:
        wire.parse("chat.completions", json.dumps(body).encode(), depth_max=64)
    assert refused.value.param == "messages[0].role"


@pytest.mark.parametrize("endpoint", ["messages", "responses"])
@settings(max_examples=150, deadline=None)
@given(chunks=st.lists(_VALUES, max_size=4))
def test_whatever_an_engine_streams_it_ends_with_one_word(endpoint, chunks):
    body = {"model": "m", "stream": True} | _LEAST[endpoint]
    ask = wire.parse(endpoint, json.dumps(body).encode(), depth_max=64)
    translator = ask.dialect.translator("req_1")
    told = [translator.chunk(json.dumps({"choices": [{"delta": one}]}).encode()) for one in chunks]
    told.append(translator.chunk(b"[DONE]"))
    text = b"".join(told).decode()
    last = [line for line in text.split("\n") if line.startswith("event: ")][-1]
    assert last in ("event: error", "event: response.failed")
