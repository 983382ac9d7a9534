"""What the playground asks and how it reads what comes back."""

import json
from datetime import UTC, datetime

import pytest

from console.live import answers
from console.live.answers import Answer, Ask, Lines, Stop, Unclear
from control.metering.facts import PriceRow

HELLO = [{"role": "user", "content": "Hello"}]


def ask(**changed) -> str:
    whole = {"type": "ask", "route": "chat", "messages": HELLO, "temperature": 0.7}
    return json.dumps(whole | changed)


def event(**fields) -> bytes:
    return json.dumps(fields).encode()


def test_an_ask_becomes_a_streamed_call_that_asks_for_usage():
    read = answers.read(ask(max_tokens=5))
    assert isinstance(read, Ask)
    assert read.body() == {
        "model": "chat",
        "messages": HELLO,
        "temperature": 0.7,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 5,
    }


def test_a_stop_is_a_stop():
    assert answers.read('{"type": "stop"}') == Stop()


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        ask(route=""),
        ask(messages=[]),
        ask(messages=[{"role": "tool", "content": "x"}]),
        ask(messages=HELLO * 201),
        ask(temperature=3),
        ask(temperature=None),
        ask(max_tokens=0),
        ask(max_tokens="many"),
    ],
)
def test_what_is_unclear_is_refused_in_words(text):
    assert isinstance(answers.read(text), Unclear)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_s01_a_read_is_not_an_event(size):
    stream = (
        'data: {"a": "\u2028"}\r\n\r\n: keep-alive\n\ndata:{"b":2}\n\ndata: [DONE]\n\n'.encode()
    )
    lines = Lines()
    seen = [
        data for at in range(0, len(stream), size) for data in lines.feed(stream[at : at + size])
    ]
    assert seen == ['{"a": "\u2028"}'.encode(), b'{"b":2}', b"[DONE]"]


def test_an_answer_counts_from_usage_and_times_from_the_first_text():
    answer = Answer(started=10.0)
    assert answer.take(event(model="m", choices=[{"delta": {"role": "assistant"}}]), at=10.1) == ""
    assert answer.take(event(choices=[{"delta": {"content": "one"}}]), at=10.5) == "one"
    answer.take(event(choices=[{"delta": {"content": " two"}, "finish_reason": "stop"}]), at=11.5)
    answer.take(event(choices=[], usage={"prompt_tokens": 4, "completion_tokens": 5}), at=11.6)
    answer.take(b"[DONE]", at=11.6)
    figures = answer.figures(at=12.0)
    assert figures["ttft_seconds"] == 0.5
    assert figures["tokens_per_second"] == 4.0
    assert (figures["input_tokens"], figures["output_tokens"]) == (4, 5)
    assert figures["finish_reason"] == "stop"


def test_a_stream_without_an_end_says_that_it_broke_off():
    answer = Answer(started=0.0)
    answer.take(event(choices=[{"delta": {"content": "one"}}]), at=1.0)
    figures = answer.figures(at=2.0)
    assert figures["finish_reason"] == "broken off"
    assert (figures["output_tokens"], figures["counted"]) == (1, "events")


def test_an_error_in_the_stream_is_kept_for_the_page():
    answer = Answer(started=0.0)
    assert answer.take(event(error={"message": "The engine died."}), at=1.0) == ""
    assert answer.error == "The engine died."


def price() -> PriceRow:
    return PriceRow("m", "USD", "0.10", "0.02", "0.40", datetime(2026, 11, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ((100, 40, 10, "usage"), "0.0000108 USD"),
        ((None, 0, 10, "events"), "about 0.000004 USD"),
        ((0, 0, 0, "usage"), "0 USD"),
    ],
)
def test_a_call_says_what_it_costs(tokens, said):
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "counted")
    assert answers.cost(dict(zip(names, tokens, strict=True)), price()) == said


def test_a_model_without_a_price_says_so():
    assert answers.cost({}, None) == "no price"


@pytest.mark.parametrize(
    ("status", "body", "after", "said"),
    [
        (503, b'{"error":{"message":"Loading."}}', "5", "Loading. Try again in 5 s."),
        (429, b'{"error":{"message":"Slow down."}}', "", "Slow down."),
        (502, b"<html>", "", "The gateway answered 502."),
        (500, b'{"error": "odd"}', "", "The gateway answered 500."),
    ],
)
def test_a_refusal_is_said_in_words(status, body, after, said):
    assert answers.refusal(status, body, after) == said
