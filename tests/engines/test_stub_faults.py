"""The stub fails as it is told, and starts and ends as vLLM does."""

import os
import subprocess
import sys

import httpx
import pytest

from engines.kinds import KINDS
from engines.stub.answers import pieces
from engines.stub.script import Raw
from tests.engines.stub import (
    AUTHORISED,
    HELLO,
    ROOT,
    events,
    eventually,
    running_stub,
)
from tests.threads import HANG_SECONDS


def test_a_script_serves_so_many_calls_then_the_next_one_does(engine):
    engine.script(times=2, text="first")
    engine.script(text="second")
    said = [engine.post(HELLO).json()["choices"][0]["message"]["content"] for _ in range(4)]
    assert said[:3] == ["first", "first", "second"]
    assert said[3].startswith("t1 t2")


def test_a_status_is_answered_with_vllms_error_body(engine):
    engine.script(status=503, error="queue full", retry_after="2")
    answer = engine.post(HELLO)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json()["error"]["message"] == "queue full"


def test_s07_an_engine_that_dies_says_so_under_a_200_and_ends_with_done(engine):
    engine.script(tokens=10, fail_after_tokens=2)
    answer = engine.post(HELLO | {"stream": True})
    *_, before, error = events(answer.text)
    assert answer.status_code == 200
    assert before["choices"][0]["delta"] == {"content": " t2"}
    assert error["error"]["code"] == 500


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_s06_a_stream_can_break_off_without_its_end(engine, how):
    engine.script(tokens=10, fail_after_tokens=1, fail_with=how)
    with pytest.raises(httpx.TransportError):
        engine.post(HELLO | {"stream": True})


def test_a_call_that_hangs_ends_when_its_client_leaves(engine):
    engine.script(hang=True)
    url, patience = f"{engine.url}/v1/chat/completions", httpx.Timeout(30, read=0.2)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(url, json=HELLO, headers=AUTHORISED, timeout=patience)
    eventually(lambda: [one["outcome"] for one in engine.seen()["requests"]][-1:] == ["aborted"])


def test_an_answer_is_held_until_it_is_told_to_go_on(engine):
    engine.script(tokens=3, hold_after_tokens=1)
    url, before = f"{engine.url}/v1/chat/completions", engine.seen()["generation_tokens"]
    asked = {"json": HELLO | {"stream": True}, "headers": AUTHORISED, "timeout": HANG_SECONDS}
    with httpx.stream("POST", url, **asked) as answer:
        lines = (line for line in answer.iter_lines() if line)
        said = [next(lines), next(lines)]  # who speaks, and a token
        assert engine.seen()["generation_tokens"] == before + 1
        engine.order(go_on=True)
        assert len(events("\n".join([*said, *lines]))) >= 4
    assert engine.seen()["generation_tokens"] == before + 3


def test_its_health_is_what_it_is_told(engine):
    engine.order(health=503)
    assert httpx.get(f"{engine.url}/health", timeout=30).status_code == 503
    engine.order(clear=True)
    assert httpx.get(f"{engine.url}/health", timeout=30).status_code == 200


def test_thought_tokens_come_first_and_are_counted_apart(engine):
    engine.script(text="so it is", reasoning_tokens=2)
    answer = engine.post(HELLO).json()
    message, usage = answer["choices"][0]["message"], answer["usage"]
    assert (message["reasoning"], message["content"]) == ("so it", " is")
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 2}


@pytest.mark.parametrize("split", ["frame", 1, 7])
def test_raw_bytes_come_as_they_are(engine, split):
    data = b"data: a\r\n\r\ndata: \xe4\xbb\xb7\n\ndata: [DONE]\n\n"
    engine.script(raw={"hex": data.hex(), "split": split})
    assert engine.post(HELLO | {"stream": True}).content == data


def test_raw_bytes_in_frames_are_one_event_a_write():
    raw = Raw(b"data: a\n\ndata: b\r\n\r\ndata: c\r\rrest")
    assert pieces(raw) == [b"data: a\n\n", b"data: b\r\n\r\n", b"data: c\r\r", b"rest"]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"script": {"ttft": 1}}, "unknown member 'ttft'; known are"),
        ({"script": {"tokens": "3"}}, "tokens must be int, not '3'"),
        ({"script": {"tokens": True}}, "tokens must be int"),
        ({"script": {"fail_with": "fire"}}, "fail_with must be one of error, fin, rst, exit"),
        ({"script": {"raw": {"hex": "zz"}}}, "raw needs hex"),
        ({"script": {"raw": {"hex": "00", "split": 0}}}, "raw.split must be"),
        ({"script": {"tokens": 1}, "times": 0}, "times must be a whole number from 1"),
        ({"scripts": []}, "an order has script, times, health, go_on and clear"),
    ],
)
def test_a_wrong_order_is_refused_by_name(engine, order, message):
    answer = httpx.post(f"{engine.url}/stub/script", json=order, timeout=30)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_several_calls_go_over_one_connection(engine):
    addresses = set()
    with httpx.Client(headers=AUTHORISED, timeout=30) as client:
        for streamed in (True, False, True):
            url = f"{engine.url}/v1/chat/completions"
            with client.stream("POST", url, json=HELLO | {"stream": streamed}) as answer:
                connection = answer.extensions["network_stream"]
                addresses.add(connection.get_extra_info("client_addr"))
                answer.read()
    assert len(addresses) == 1


def test_sigterm_tells_running_streams_that_the_engine_died():
    with running_stub() as engine:
        engine.script(tokens=60, token_seconds=1)
        with httpx.stream(
            "POST", f"{engine.url}/v1/chat/completions", json=HELLO | {"stream": True}, timeout=30
        ) as answer:
            lines = answer.iter_lines()
            next(lines)
            os.kill(engine.pid, 15)
            rest = "\n".join(lines)
    assert '"code":500' in rest
    assert rest.rstrip().endswith("data: [DONE]")


def start(*arguments: str, **env: str) -> subprocess.CompletedProcess:
    argv = [sys.executable, "-m", "engines.stub", *arguments]
    return subprocess.run(
        argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=HANG_SECONDS
    )


def test_it_does_not_start_unless_allowed():
    done = start()
    assert done.returncode == 1
    assert "set WEIR_ALLOW_STUB=1" in done.stderr


@pytest.mark.parametrize(
    ("failure", "cause"),
    [("out_of_memory", "memory_short_at_start"), ("port_taken", "port_taken")],
)
def test_its_failed_starts_have_vllms_causes(failure, cause):
    done = start("--start-failure", failure, WEIR_ALLOW_STUB="1")
    assert done.returncode == 1
    assert KINDS["stub"].read_cause(done.stdout + done.stderr, 1).code == cause


def test_a_taken_port_is_told_as_by_vllm(engine):
    done = start("--port", str(engine.port), WEIR_ALLOW_STUB="1")
    assert KINDS["stub"].read_cause(done.stdout + done.stderr, 1).code == "port_taken"
