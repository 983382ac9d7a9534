"""What an engine's whole answer means: one row for each that another engine would, or would not,
have answered better."""

import msgspec
import pytest

from control.gateway import errors
from control.gateway.bodies.wire import parse
from control.gateway.calls.answered import Failed, Rejected, Unserved, Whole, meaning_of
from control.gateway.routing.health import Cause
from control.gateway.streams.chunks import Usage

GOOD = {
    "choices": [{"index": 0, "message": {"content": "fine"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3},
}
VECTORS = {"data": [{"embedding": [1.0]}], "usage": {"prompt_tokens": 7}}
DEAD = {"error": {"message": "EngineCore encountered an issue"}}


def asked(*, stream: bool = False):
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": stream}
    return parse("chat.completions", msgspec.json.encode(body), depth_max=32)


def said(status: int, answer: object, *, stream: bool = False):
    return meaning_of(asked(stream=stream), status, msgspec.json.encode(answer))


def test_a_good_answer_says_what_it_used_and_why_it_ended():
    assert said(200, GOOD) == Whole(Usage(7, 0, 3, 0), "stop", has_choices=True)
    assert said(200, VECTORS) == Whole(Usage(7, 0, 0, 0), "", has_choices=False)


@pytest.mark.parametrize(
    ("status", "answer", "refusal", "cause"),
    [
        (200, "no object", errors.UpstreamFailed, Cause.ERROR),
        (200, {"error": {"message": "no", "code": 503}}, errors.EngineBusy, Cause.BUSY),
        (200, {"error": "it broke"}, errors.UpstreamFailed, Cause.ERROR),
        (200, DEAD, errors.EngineDied, Cause.DIED),
        (401, {"error": {"message": "who are you"}}, errors.UpstreamFailed, Cause.IMPOSTOR),
        (404, {"error": {"message": "no such model"}}, errors.UpstreamFailed, Cause.IMPOSTOR),
        (500, DEAD, errors.EngineDied, Cause.DIED),
        (500, "no object", errors.UpstreamFailed, Cause.ERROR),
        (503, {}, errors.EngineBusy, Cause.BUSY),
        (504, {}, errors.UpstreamTimeout, Cause.SILENT),
    ],
)
def test_another_engine_may_do_better(status, answer, refusal, cause):
    match said(status, answer):
        case Failed(told, why):
            assert (type(told), why) == (refusal, cause)
        case other:
            pytest.fail(f"{other} is no failure")


def test_a_whole_answer_to_who_asked_for_a_stream_is_none():
    match said(200, GOOD, stream=True):
        case Failed(told, _):
            assert isinstance(told, errors.UpstreamFailed)
        case other:
            pytest.fail(f"{other} is no failure")


@pytest.mark.parametrize(
    ("answer", "refusal", "message"),
    [
        ({"error": {"message": "'n' is 0"}}, errors.InvalidValue, "'n' is 0"),
        ({"error": {"message": "maximum context length is 8"}}, errors.ContextTooLong, None),
        (
            {"error": {"message": "too long", "code": "context_length_exceeded"}},
            errors.ContextTooLong,
            "too long",
        ),
        ({}, errors.InvalidValue, ""),
    ],
)
def test_what_an_engine_will_not_take_is_told_in_its_own_words(answer, refusal, message):
    match said(400, answer):
        case Rejected(told, own):
            assert isinstance(told, refusal)
            assert own == (told.message if message is None else message)
        case other:
            pytest.fail(f"{other} is no rejection")


def test_a_model_without_this_endpoint_is_no_fault_of_its_engine():
    match said(404, {"detail": "Not Found"}):
        case Unserved(told):
            assert told.message == "This model does not serve 'chat.completions'."
        case other:
            pytest.fail(f"{other} is an engine's")
