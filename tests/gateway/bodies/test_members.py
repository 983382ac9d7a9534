"""The table of members: each with its type and range, by endpoint."""

import json

import pytest

from control.gateway import errors
from control.gateway.bodies import members, wire
from tests.gateway.place import chat, route
from tests.gateway.upstream import answered

BIG = "x" * (16 * 1024)
SCHEMA = {"type": "object"}
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}
NAMED = {"type": "function", "function": {"name": "look_up"}}
OTHER = {"type": "function", "function": {"name": "forget"}}
CALLS = {
    "chat.completions": chat(),
    "completions": {"model": "m", "prompt": "a"},
    "embeddings": {"model": "m", "input": "a"},
    "rerank": {"model": "m", "query": "a", "documents": ["b"]},
    "score": {"model": "m", "text_1": "a", "text_2": ["b"]},
    "responses": {"model": "m", "input": "a"},
    "messages": {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "a"}]},
    "messages.count_tokens": {"model": "m", "messages": [{"role": "user", "content": "a"}]},
}


def parse(endpoint: str, **changes) -> wire.Ask:
    body = CALLS[endpoint] | changes
    return wire.parse(endpoint, json.dumps(body).encode(), depth_max=64)


def refusal(endpoint: str, **changes) -> errors.Refusal:
    with pytest.raises(errors.Refusal) as raised:
        parse(endpoint, **changes)
    return raised.value


@pytest.mark.parametrize("endpoint", CALLS)
def test_the_least_call_is_taken_and_an_unknown_member_is_not(endpoint):
    parse(endpoint)
    refused = refusal(endpoint, surprise=1)
    assert (refused.status, refused.code, refused.param) == (400, "unknown_parameter", "surprise")


@pytest.mark.parametrize(
    ("endpoint", "member"),
    [(endpoint, name) for endpoint in CALLS for name in members.REQUIRED[endpoint]],
)
def test_what_is_required_is_missed_by_name(endpoint, member):
    refused = refusal(endpoint, **{member: None})
    assert (refused.code, refused.param) == ("missing_required_parameter", member)


@pytest.mark.parametrize("name", sorted(members.OURS))
@pytest.mark.parametrize("endpoint", CALLS)
def test_what_is_the_platforms_to_set_is_refused(endpoint, name):
    assert refusal(endpoint, **{name: "x"}).code == "unknown_parameter"


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"n": 8}, None),
        ({"n": 9}, "n"),
        ({"n": 0}, "n"),
        ({"logprobs": True, "top_logprobs": 20}, None),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"stop": ["a", "b", "c", "d"]}, None),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"logit_bias": {str(token): 1 for token in range(300)}}, None),
        ({"logit_bias": {str(token): 1 for token in range(301)}}, "logit_bias"),
        ({"logit_bias": {"5": -100, "6": 100.0}}, None),
        ({"logit_bias": {"5": 100.1}}, "logit_bias.5"),
        ({"logit_bias": {"5": "1"}}, "logit_bias.5"),
        ({"logit_bias": {"-5": 1}}, "logit_bias.-5"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"stop": ""}, "stop"),
        ({"stop": [""]}, "stop[0]"),
        ({"stop": "x" * 1025}, "stop"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 0.0001}, None),
        ({"top_p": 1}, None),
        ({"top_p": 1.1}, "top_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"stop_token_ids": [-1]}, "stop_token_ids[0]"),
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"top_logprobs": 0}, None),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"max_tokens": 10_000_001}, "max_tokens"),
        ({"max_tokens": 8, "min_tokens": 9}, "min_tokens"),
        ({"max_tokens": 8, "min_tokens": 8}, None),
        ({"max_completion_tokens": 8, "max_tokens": 9, "min_tokens": 9}, "min_tokens"),
        ({"min_tokens": 9}, None),
        ({"n": 2, "temperature": 0}, "n"),
        ({"n": 2, "temperature": 0.000001}, "n"),
        ({"n": 2, "temperature": 0.5}, None),
        ({"n": 1, "temperature": 0}, None),
        ({"response_format": {"type": "json_object"}}, None),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_object", "x": 1}}, "response_format.x"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"structured_outputs": {"regex": "a*"}}, None),
        ({"structured_outputs": {"regex": BIG}}, "structured_outputs.regex"),
        ({"structured_outputs": {"grammar": BIG}}, "structured_outputs.grammar"),
        ({"structured_outputs": {"json": {"a": BIG}}}, "structured_outputs.json"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
        ({"structured_outputs": {"backend": "x"}}, "structured_outputs.backend"),
        ({"tools": [TOOL], "tool_choice": "required"}, None),
        ({"tools": [TOOL] * 129}, "tools"),
        ({"tools": []}, None),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": NAMED}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": NAMED}, None),
        ({"tools": [TOOL], "tool_choice": OTHER}, "tool_choice"),
        ({"tool_choice": "none"}, None),
        ({"tool_choice": "auto"}, None),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "retrieval", "function": {}}]}, "tools[0].type"),
        (
            {"tools": [{"type": "function", "function": {"name": "a b"}}]},
            "tools[0].function.name",
        ),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"chat_template_kwargs": {"enable_thinking": False, "date": "today"}}, None),
        ({"chat_template_kwargs": {"chat_template": "x"}}, "chat_template_kwargs.chat_template"),
        ({"chat_template_kwargs": {"tokenize": True}}, "chat_template_kwargs.tokenize"),
        ({"chat_template_kwargs": {"a": {"b": 1}}}, "chat_template_kwargs.a"),
    ],
)
def test_chat_members_have_their_ranges(changes, param):
    if param is None:
        parse("chat.completions", **changes)
        return
    refused = refusal("chat.completions", **changes)
    assert (refused.status, refused.param) == (400, param)


def test_schemas_are_at_most_16_kib():
    def call(size: int) -> dict:
        schema = {"a": "x" * (size - len('{"a":""}'))}
        format_ = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        return {"response_format": format_}

    parse("chat.completions", **call(16 * 1024))
    refused = refusal("chat.completions", **call(16 * 1024 + 1))
    assert refused.param == "response_format.json_schema.schema"
    assert "at most 16384 are allowed" in refused.message


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ("some text", None),
        (["a", "b"], None),
        ([1, 2, 3], None),
        ([[1, 2], [3]], None),
        ("", "input"),
        (["a", ""], "input[1]"),
        ([[]], "input[0]"),
        ([[1], ["x"]], "input[1]"),
        (["a"] * 2048, None),
        (["a"] * 2049, "input"),
        ([1] * 8192, None),
        ([1] * 8193, "input"),
        ([[1] * 8193], "input[0]"),
        ([[1] * 8000] * 37, None),
        ([[1] * 8000] * 38, "input"),
        ("x" * 8 * 8193, "input"),
        ([{"a": 1}], "input"),
        ([5, -1], "input"),
        ([[5], [2**31]], "input[1]"),
    ],
)
def test_what_may_be_embedded_at_once(given, param):
    if param is None:
        ask = parse("embeddings", input=given)
        assert (ask.choices, ask.generates) == (0, False)
    else:
        assert refusal("embeddings", input=given).param == param


@pytest.mark.parametrize(
    ("endpoint", "changes", "param"),
    [
        ("embeddings", {"encoding_format": "base64"}, None),
        ("embeddings", {"encoding_format": "hex"}, "encoding_format"),
        ("embeddings", {"dimensions": 0}, "dimensions"),
        ("embeddings", {"stream": True}, "stream"),
        ("rerank", {"documents": [{"text": "b"}], "top_n": 1, "return_documents": True}, None),
        ("rerank", {"documents": []}, "documents"),
        ("rerank", {"documents": ["b", 5]}, "documents[1]"),
        ("rerank", {"documents": [{"image": "x"}]}, "documents[0].image"),
        ("rerank", {"top_n": 0}, "top_n"),
        ("score", {"text_2": []}, "text_2"),
        ("score", {"text_1": 5}, "text_1"),
        ("completions", {"best_of": 1}, None),
        ("completions", {"best_of": 2}, "best_of"),
        ("completions", {"logprobs": 21}, "logprobs"),
        ("completions", {"prompt": ""}, "prompt"),
        ("completions", {"prompt": []}, "prompt"),
        ("completions", {"prompt": ["a", ""]}, "prompt[1]"),
        ("completions", {"prompt": [1, 2**31 - 1]}, None),
        ("completions", {"prompt": [1, -1]}, "prompt"),
        ("completions", {"prompt": [1, 2**31]}, "prompt"),
        ("completions", {"prompt": [[1], [2, -3]]}, "prompt[1]"),
        ("completions", {"prompt": [[1], []]}, "prompt[1]"),
        ("completions", {"prompt": [[1], ["x"]]}, "prompt[1]"),
        ("completions", {"prompt": [1, True]}, "prompt"),
        ("responses", {"tool_choice": "required"}, "tool_choice"),
        ("responses", {"tool_choice": "auto"}, None),
        ("responses", {"top_p": 0}, "top_p"),
        ("messages", {"tool_choice": {"type": "any"}}, "tool_choice"),
        ("messages", {"tool_choice": {"type": "tool", "name": "x"}}, "tool_choice"),
        ("messages", {"tool_choice": {"type": "none"}}, None),
        ("messages", {"stop_sequences": [""]}, "stop_sequences[0]"),
        ("messages", {"top_p": 0}, "top_p"),
        ("messages", {"max_tokens": 0}, "max_tokens"),
        ("messages", {"stop_sequences": ["a"] * 5}, "stop_sequences"),
        ("messages", {"temperature": 1.5}, "temperature"),
        ("messages", {"container": "x"}, "container"),
    ],
)
def test_other_endpoints_have_their_own(endpoint, changes, param):
    if param is None:
        parse(endpoint, **changes)
    else:
        assert refusal(endpoint, **changes).param == param


async def test_a_route_may_let_more_members_through_but_never_ours(place, engines):
    engine = await engines(answered())
    place.know(route(members=("guided_json", "priority")), route("plain"))
    answer = await place.post(chat(guided_json={"a": 1}))
    assert answer.status == 200
    assert engine.seen[0].body["guided_json"] == {"a": 1}
    for body in (chat(priority=1), chat(guided_json=1) | {"model": "plain"}):
        refused = await place.post(body)
        assert (refused.status, refused.error["code"]) == (400, "unknown_parameter")
    assert len(engine.seen) == 1


async def test_the_limits_name_the_member_that_the_tenant_used(place, engines):
    await engines(answered())
    place.know(route(output_tokens_max=10))
    refused = await place.post(chat(max_completion_tokens=11))
    assert refused.error["param"] == "max_completion_tokens"


async def test_a_choice_of_tools_is_not_sent_on_without_tools(place, engines):
    """Engines refuse even the choice that asks for nothing."""
    engine = await engines(answered())
    assert (await place.post(chat(tools=[], tool_choice="auto"))).status == 200
    assert not {"tools", "tool_choice"} & engine.seen[0].body.keys()


@pytest.mark.parametrize(
    ("endpoint", "member", "said"),
    [
        ("chat.completions", "stop", "'stop' must be a string or an array."),
        ("responses", "tool_choice", "'tool_choice' must be a string or an object."),
    ],
)
def test_what_is_of_no_type_that_it_may_be_is_told_in_words_of_json(endpoint, member, said):
    assert refusal(endpoint, **{member: 5}).message == said
