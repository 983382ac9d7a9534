"""Anthropic's Messages: what becomes of an answer, a stream and a refusal."""

import json

import pytest

from control.gateway import errors
from control.gateway.bodies.dialects import refusals
from tests.gateway.bodies.dialects.events import chunks, events_of, kinds, messages, parse


def answer(message: dict, finish: str = "stop", **choice) -> dict:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 3},
    }
    one = {"index": 0, "message": message, "finish_reason": finish, **choice}
    return {"id": "chatcmpl-1", "created": 1, "choices": [one], "usage": usage}


def whole(given: dict, **members) -> dict:
    dialect = parse(messages(**members)).dialect
    return json.loads(dialect.whole(json.dumps(given).encode(), "req_12"))


def test_an_answer_in_their_words():
    got = whole(answer({"role": "assistant", "content": "fine", "reasoning": "hm"}))
    assert got == {
        "id": "msg_12",
        "type": "message",
        "role": "assistant",
        "model": "chat",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "fine"},
        ],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 7,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 3,
            "output_tokens": 4,
        },
    }


@pytest.mark.parametrize(
    ("finish", "choice", "reason", "sequence"),
    [
        ("stop", {}, "end_turn", None),
        ("stop", {"stop_reason": "END"}, "stop_sequence", "END"),
        ("stop", {"stop_reason": "other"}, "end_turn", None),
        ("stop", {"stop_reason": 151645}, "end_turn", None),
        ("length", {}, "max_tokens", None),
        ("tool_calls", {}, "tool_use", None),
        ("content_filter", {}, "refusal", None),
    ],
)
def test_reasons_to_stop(finish, choice, reason, sequence):
    got = whole(answer({"content": "x"}, finish, **choice), stop_sequences=["END"])
    assert (got["stop_reason"], got["stop_sequence"]) == (reason, sequence)


@pytest.mark.parametrize(
    ("arguments", "given"),
    [('{"city":"Bern"}', {"city": "Bern"}), ('{"ci', {}), ("[1]", {}), (None, {})],
)
def test_a_call_of_a_tool(arguments, given):
    call = {"id": "t1", "function": {"name": "weather", "arguments": arguments}}
    got = whole(answer({"content": None, "tool_calls": [call]}, "tool_calls"))
    assert got["content"] == [{"type": "tool_use", "id": "t1", "name": "weather", "input": given}]


@pytest.mark.parametrize("body", [b"{}", b"[]", b"no", b'{"choices":[{"message":5}]}'])
def test_an_answer_that_is_none_is_the_engines_failure(body):
    with pytest.raises(errors.UpstreamFailed):
        parse(messages()).dialect.whole(body, "req_1")


# --- streams --------------------------------------------------------------------------------


def told(*deltas: dict, finish: str | None = "stop", done: bool = True) -> list[tuple[str, dict]]:
    translator = parse(messages(stream=True)).dialect.translator("req_12")
    datas = chunks(*deltas, finish=finish, usage=(10, 4, 3)) + ([b"[DONE]"] if done else [])
    return events_of(b"".join([translator.chunk(data) for data in datas]))


def test_a_stream_in_their_events():
    events = told({"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"})
    assert kinds(events) == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert all(name == data["type"] for name, data in events)
    start = events[0][1]["message"]
    assert (start["id"], start["content"], start["stop_reason"]) == ("msg_12", [], None)
    assert start["usage"]["input_tokens"] == 10
    assert events[2][1] == {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "a"},
    }
    assert events[-2][1]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert events[-2][1]["usage"] == {
        "input_tokens": 7,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 3,
        "output_tokens": 4,
    }


def test_thinking_text_and_tools_are_blocks_one_after_another():
    events = told(
        {"reasoning": "hm"},
        {"content": "I look."},
        {"tool_calls": [{"index": 0, "id": "t1", "function": {"name": "weather"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
        {"tool_calls": [{"index": 1, "id": "t2", "function": {"name": "w", "arguments": "{}"}}]},
        finish="tool_calls",
    )
    starts = [d for name, d in events if name == "content_block_start"]
    assert [(d["index"], d["content_block"]["type"]) for d in starts] == [
        (0, "thinking"),
        (1, "text"),
        (2, "tool_use"),
        (3, "tool_use"),
    ]
    assert [d["index"] for name, d in events if name == "content_block_stop"] == [0, 1, 2, 3]
    deltas = [d["delta"] for name, d in events if name == "content_block_delta"]
    assert [d.get("partial_json") for d in deltas if "partial_json" in d] == ['{"a"', ":1}", "{}"]
    assert events[-2][1]["delta"]["stop_reason"] == "tool_use"


def test_a_stream_without_an_end_says_so():
    events = told({"content": "a"}, finish=None)
    assert kinds(events)[-1] == "error"
    assert events[-1][1]["error"]["type"] == "api_error"


def test_what_is_no_chunk_says_nothing():
    translator = parse(messages(stream=True)).dialect.translator("req_12")
    assert translator.chunk(b"not json") == b""
    assert translator.chunk(b'{"choices":[{"delta":{"content":5}}]}') == b""


# --- refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refusal", "status", "kind"),
    [
        (errors.InvalidValue("x", param="p"), 400, "invalid_request_error"),
        (errors.UnknownKey("x"), 401, "authentication_error"),
        (errors.PermissionDenied("x"), 403, "permission_error"),
        (errors.ModelNotFound("x"), 404, "not_found_error"),
        (errors.WrongMethod("x", allowed="POST"), 405, "invalid_request_error"),
        (errors.RequestTooLarge("x"), 413, "request_too_large"),
        (errors.RateLimited("x"), 429, "rate_limit_error"),
        (errors.InternalError("x"), 500, "api_error"),
        (errors.UpstreamFailed("x"), 502, "api_error"),
        (errors.Overloaded("x"), 529, "overloaded_error"),
        (errors.ModelLoading("x"), 529, "overloaded_error"),
        (errors.UpstreamTimeout("x"), 504, "timeout_error"),
    ],
)
def test_refusals_have_their_shape(refusal, status, kind):
    got, body, headers = refusals.worded("/v1/messages", refusal, "req_12")
    assert got == status
    assert json.loads(body) == {
        "type": "error",
        "error": {"type": kind, "message": "x"},
        "request_id": "req_12",
    }
    assert (b"request-id", b"req_12") in headers
