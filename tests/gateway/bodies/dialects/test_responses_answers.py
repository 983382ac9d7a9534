"""OpenAI's Responses: what becomes of an answer and a stream."""

import json

import pytest

from control.gateway import errors
from tests.gateway.bodies.dialects.events import asked, chunks, events_of, kinds, parse

TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 4,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
TOLD = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
    "output_tokens": 4,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 14,
}


def whole(message: dict, finish: str = "stop", **members) -> dict:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    answer = {"id": "chatcmpl-1", "created": 7, "choices": [choice], "usage": USAGE}
    dialect = parse(asked(**members), "responses").dialect
    return json.loads(dialect.whole(json.dumps(answer).encode(), "req_12"))


def test_an_answer_in_their_words():
    tool_call = {"id": "c1", "function": {"name": "weather", "arguments": "{}"}}
    message = {"content": "fine", "reasoning": "hm", "tool_calls": [tool_call]}
    got = whole(message, "tool_calls", tools=[TOOL], metadata={"a": "b"})
    assert (got["id"], got["object"], got["created_at"]) == ("resp_12", "response", 7)
    assert (got["status"], got["error"], got["incomplete_details"]) == ("completed", None, None)
    assert [item["type"] for item in got["output"]] == ["reasoning", "message", "function_call"]
    assert got["output"][1]["content"] == [
        {"type": "output_text", "text": "fine", "annotations": [], "logprobs": []}
    ]
    assert len({item["id"] for item in got["output"]}) == 3
    assert got["usage"] == TOLD
    assert (got["tools"], got["metadata"], got["store"]) == ([TOOL], {"a": "b"}, False)


@pytest.mark.parametrize(
    ("finish", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "incomplete", {"reason": "content_filter"}),
    ],
)
def test_how_an_answer_ended(finish, status, reason):
    got = whole({"content": "x"}, finish)
    assert (got["status"], got["incomplete_details"]) == (status, reason)


def told(*deltas: dict, finish: str | None = "stop") -> list[tuple[str, dict]]:
    translator = parse(asked(stream=True), "responses").dialect.translator("req_12")
    datas = [*chunks(*deltas, finish=finish, usage=(10, 4, 3)), b"[DONE]"]
    events = events_of(b"".join([translator.chunk(data) for data in datas]))
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    assert all(name == data["type"] for name, data in events)
    return events


def test_a_stream_in_their_events():
    events = told({"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"})
    assert kinds(events) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    last = events[-1][1]["response"]
    assert (last["status"], last["output"][0]["content"][0]["text"]) == ("completed", "ab")
    assert last["usage"]["total_tokens"] == 14
    assert {data["item_id"] for _, data in events if "item_id" in data} == {last["output"][0]["id"]}


def test_what_is_thought_said_and_called_are_items_one_after_another():
    events = told(
        {"reasoning": "hm"},
        {"content": "I look."},
        {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "weather"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
        {"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "w", "arguments": "{}"}}]},
        finish="tool_calls",
    )
    output = events[-1][1]["response"]["output"]
    assert [item["type"] for item in output] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert [item.get("arguments") for item in output] == [None, None, '{"a":1}', "{}"]
    assert all(item["status"] == "completed" for item in output)
    added = [d["output_index"] for name, d in events if name == "response.output_item.added"]
    assert added == [0, 1, 2, 3]


def test_a_stream_that_was_cut_short_is_incomplete():
    name, data = told({"content": "a"}, finish="length")[-1]
    assert name == "response.incomplete"
    assert data["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_stream_without_an_end_has_failed():
    name, data = told({"content": "a"}, finish=None)[-1]
    assert name == "response.failed"
    assert data["response"]["error"]["code"] == "server_error"


def test_a_failure_before_anything_was_said():
    translator = parse(asked(stream=True), "responses").dialect.translator("req_12")
    events = events_of(translator.fail(errors.Overloaded("busy")))
    assert kinds(events) == ["response.created", "response.in_progress", "response.failed"]
    assert events[-1][1]["response"]["error"] == {"code": "server_error", "message": "busy"}
