"""Anthropic's Messages: what becomes of a request, an answer, a stream and a refusal."""

import json

import pytest

from control.gateway import errors
from tests.gateway.bodies.dialects.events import messages, parse

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"name": "weather", "description": "Of a city.", "input_schema": SCHEMA}
FUNCTION = {"name": "weather", "description": "Of a city.", "parameters": SCHEMA}
NOT_PARALLEL = {"disable_parallel_tool_use": True}
IMAGE = {"type": "base64", "media_type": "image/png", "data": "AAAA"}


@pytest.mark.parametrize(
    ("members", "chat"),
    [
        ({"system": "Be kind."}, {"messages": ["system", "user"]}),
        ({"temperature": 0.5, "top_p": 0.9, "top_k": 5}, {"temperature": 0.5, "top_k": 5}),
        ({"stop_sequences": ["x"]}, {"stop": ["x"]}),
        ({"metadata": {"user_id": "u-1"}}, {"user": "u-1"}),
        ({"tools": [TOOL]}, {"tools": [{"type": "function", "function": FUNCTION}]}),
        ({"tools": [TOOL], "tool_choice": {"type": "auto"}}, {"tool_choice": "auto"}),
        ({"tools": [TOOL], "tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
        ({"tools": [TOOL], "tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
        (
            {
                "tools": [TOOL],
                "tool_choice": {"type": "tool", "name": "weather", **NOT_PARALLEL},
            },
            {
                "tool_choice": {"type": "function", "function": {"name": "weather"}},
                "parallel_tool_calls": False,
            },
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2000}},
            {
                "thinking_token_budget": 2000,
                "chat_template_kwargs": {"enable_thinking": True},
            },
        ),
        (
            {"thinking": {"type": "disabled"}},
            {"chat_template_kwargs": {"enable_thinking": False}},
        ),
        ({"output_config": {"effort": "high"}}, {"reasoning_effort": "high"}),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": SCHEMA},
                }
            },
        ),
    ],
)
def test_members_become_those_of_chat(members, chat):
    ask = parse(messages(**members))
    assert (ask.endpoint, ask.called, ask.max_tokens) == ("chat.completions", "messages", 50)
    for name, value in chat.items():
        seen = ask.fields[name]
        assert ([one["role"] for one in seen] if name == "messages" else seen) == value


@pytest.mark.parametrize(
    ("turns", "told"),
    [
        (["hi"], [{"role": "user", "content": "hi"}]),
        (
            [[{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]],
            [{"role": "user", "content": "hi"}],
        ),
        (
            [[{"type": "image", "source": IMAGE}, {"type": "text", "text": "what?"}]],
            [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image_url",
                            "image_url": {"url": "data:image/png;base64,AAAA"},
                        },
                        {"type": "text", "text": "what?"},
                    ],
                }
            ],
        ),
        (
            [
                "weather?",
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "t1", "name": "weather", "input": {"a": 1}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t1", "content": "sun"},
                        {"type": "text", "text": "and?"},
                    ],
                },
            ],
            [
                {"role": "user", "content": "weather?"},
                {
                    "role": "assistant",
                    "content": "I look.",
                    "reasoning": "hm",
                    "tool_calls": [
                        {
                            "id": "t1",
                            "type": "function",
                            "function": {"name": "weather", "arguments": '{"a":1}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "t1", "content": "sun"},
                {"role": "user", "content": "and?"},
            ],
        ),
        (
            [
                [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [
                            {"type": "text", "text": "seen"},
                            {"type": "image", "source": IMAGE},
                        ],
                    },
                    {"type": "tool_result", "tool_use_id": "t2"},
                ]
            ],
            [
                {"role": "tool", "tool_call_id": "t1", "content": "seen"},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image_url",
                            "image_url": {"url": "data:image/png;base64,AAAA"},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "t2", "content": ""},
            ],
        ),
    ],
)
def test_blocks_become_chat_messages(turns, told):
    assert parse(messages(*turns)).fields["messages"] == told


def test_the_beginning_of_an_answer_is_continued():
    ask = parse(messages("count", {"role": "assistant", "content": "one, "}))
    assert ask.fields["continue_final_message"] is True
    assert ask.fields["add_generation_prompt"] is False


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (messages(system=[{"type": "image"}]), "system[0].type"),
        (messages([]), "messages[0].content"),
        (messages([{"type": "audio"}]), "messages[0].content[0].type"),
        (messages([{"type": "text"}]), "messages[0].content[0].text"),
        (
            messages([{"type": "image", "source": {"type": "file"}}]),
            "messages[0].content[0].source.type",
        ),
        (
            messages([{"type": "image", "source": {"type": "url", "url": "file:///etc/passwd"}}]),
            "messages[0].content[0].source.url",
        ),
        (messages("a", {"role": "king", "content": "b"}), "messages[1].role"),
        (messages([{"type": "tool_result"}]), "messages[0].content[0].tool_use_id"),
        (
            messages("a", {"role": "assistant", "content": [{"type": "tool_use", "id": "x"}]}),
            "messages[1].content[0].name",
        ),
        (messages(tools=[{"type": "web_search_20250305", "name": "x"}]), "tools[0].type"),
        (messages(tools=[{"name": "x"}]), "tools[0].input_schema"),
        (messages(tools=[{"name": "x", "input_schema": {}, "z": 1}]), "tools[0].z"),
        (messages(tool_choice={"type": "some"}), "tool_choice.type"),
        (messages(tool_choice={"type": "tool"}), "tool_choice.name"),
        (messages(thinking={"type": "sometimes"}), "thinking.type"),
        (messages(output_config={"other": 1}), "output_config.other"),
        (messages(metadata={"other": 1}), "metadata.other"),
        (messages(mcp_servers=[]), "mcp_servers"),
    ],
)
def test_what_cannot_be_mapped_is_refused_by_its_path(body, param):
    with pytest.raises(errors.Refusal) as raised:
        parse(body)
    assert (raised.value.status, raised.value.param) == (400, param)


def test_counting_asks_the_engine_for_the_same_conversation():
    body = messages("hi", system="s", tools=[TOOL])
    del body["max_tokens"]
    ask = parse(body, "messages.count_tokens")
    assert (ask.endpoint, ask.generates, ask.input_estimate) == ("tokenize", False, 0)
    assert [one["role"] for one in ask.fields["messages"]] == ["system", "user"]
    assert ask.fields["tools"] == [{"type": "function", "function": FUNCTION}]
    assert json.loads(ask.dialect.whole(b'{"count":12,"tokens":[]}', "req_1")) == {
        "input_tokens": 12
    }
    with pytest.raises(errors.UpstreamFailed):
        ask.dialect.whole(b'{"detail":"?"}', "req_1")
