"""OpenAI's Responses: what becomes of a request, an answer and a stream."""

import pytest

from control.gateway import errors
from control.gateway.bodies import wire
from tests.gateway.bodies.dialects.events import asked
from tests.gateway.bodies.dialects.events import parse as parse_as

JSON = {"type": "json_object"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
TOLD = [
    {
        "type": "function",
        "function": {"name": "weather", "parameters": SCHEMA, "strict": True},
    }
]


def parse(body: dict) -> wire.Ask:
    return parse_as(body, "responses")


def said(text: str, role: str = "user") -> dict:
    return {"role": role, "content": text}


@pytest.mark.parametrize(
    ("members", "chat"),
    [
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"reasoning": {"effort": "high", "summary": "auto"}}, {"reasoning_effort": "high"}),
        ({"tools": [TOOL]}, {"tools": TOLD}),
        (
            {"tools": [TOOL], "tool_choice": "required"},
            {"tools": TOLD, "tool_choice": "required"},
        ),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "name": TOOL["name"]}},
            {
                "tools": TOLD,
                "tool_choice": {"type": "function", "function": {"name": TOOL["name"]}},
            },
        ),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"text": {"format": JSON}}, {"response_format": JSON}),
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": SCHEMA},
                }
            },
        ),
        ({"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
        ({"include": ["message.output_text.logprobs"]}, {"logprobs": True, "top_logprobs": 0}),
        ({"store": False, "background": False, "truncation": "disabled"}, {}),
        ({"include": ["reasoning.encrypted_content"], "metadata": {"a": "b"}}, {}),
        ({"text": {"format": {"type": "text"}, "verbosity": "low"}}, {}),
    ],
)  # fmt: skip
def test_members_become_those_of_chat(members, chat):
    ask = parse(asked(max_output_tokens=50, **members))
    assert (ask.endpoint, ask.called) == ("chat.completions", "responses")
    assert (ask.max_tokens, ask.limit_name) == (50, "max_output_tokens")
    assert ask.fields == {"messages": [said("hello")]} | chat


CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
TOOL_CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (asked("hi", instructions="Be kind."), [said("Be kind.", "system"), said("hi")]),
        (
            asked([said("One.", "developer"), said("hi")], instructions="Be kind."),
            [said("Be kind.\n\nOne.", "system"), said("hi")],
        ),
        (
            asked([{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]),
            [said("hi")],
        ),
        (
            asked(
                [
                    {
                        "type": "message",
                        "role": "user",
                        "content": [
                            {"type": "input_text", "text": "what?"},
                            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
                        ],
                    }
                ]
            ),
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "what?"},
                        {
                            "type": "image_url",
                            "image_url": {"url": "data:image/png;base64,AAAA"},
                        },
                    ],
                }
            ],
        ),
        (
            asked(
                [
                    said("weather?"),
                    {
                        "type": "reasoning",
                        "id": "rs_1",
                        "summary": [],
                        "content": [{"type": "reasoning_text", "text": "hm"}],
                    },
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
                    },
                    CALL,
                    CALL | {"call_id": "c2"},
                    {"type": "function_call_output", "call_id": "c1", "output": "sun"},
                ]
            ),
            [
                said("weather?"),
                {
                    "role": "assistant",
                    "reasoning": "hm",
                    "content": "I look.",
                    "tool_calls": [TOOL_CALL, TOOL_CALL | {"id": "c2"}],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "sun"},
            ],
        ),
        (
            asked([said("hi"), CALL]),
            [said("hi"), {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}],
        ),
    ],
)
def test_items_become_chat_messages(body, told):
    assert parse(body).fields["messages"] == told


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (asked(store=True), "store"),
        (asked(background=True), "background"),
        (asked(previous_response_id="resp_1"), "previous_response_id"),
        (asked(conversation="conv_1"), "conversation"),
        (asked(truncation="auto"), "truncation"),
        (asked(include=["file_search_call.results"]), "include[0]"),
        (asked(tools=[{"type": "web_search"}]), "tools[0].type"),
        (asked(tools=[{"type": "function"}]), "tools[0].name"),
        (asked(tool_choice="some"), "tool_choice"),
        (asked(tool_choice={"type": "file_search"}), "tool_choice.type"),
        (asked(text={"format": {"type": "json_schema", "name": "n"}}), "text.format.schema"),
        (asked(text={"format": {"type": "xml"}}), "text.format.type"),
        (asked(max_output_tokens=0), "max_output_tokens"),
        (asked(metadata={"a": 1}), "metadata.a"),
        (asked([]), "input"),
        (asked([{"type": "item_reference", "id": "x"}]), "input[0].type"),
        (asked([said("a", "king")]), "input[0].role"),
        (asked([{"role": "user"}]), "input[0].content"),
        (asked([{"role": "user", "content": [{"type": "x"}]}]), "input[0].content[0].type"),
        (
            asked([{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]),
            "input[0].content[0].image_url",
        ),
        (
            asked([{"role": "user", "content": [{"type": "input_image", "image_url": "file:///x"}]}]),
            "input[0].content[0].image_url",
        ),
        (asked([{"type": "function_call", "name": "x", "arguments": ""}]), "input[0].call_id"),
        (asked([{"type": "reasoning", "content": 5}]), "input[0].content"),
        (asked(prompt={"id": "p"}), "prompt"),
        (asked(max_tool_calls=3), "max_tool_calls"),
    ],
)  # fmt: skip
def test_what_cannot_be_mapped_is_refused_by_its_path(body, param):
    with pytest.raises(errors.Refusal) as raised:
        parse(body)
    assert (raised.value.status, raised.value.param) == (400, param)
