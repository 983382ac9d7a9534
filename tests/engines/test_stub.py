"""The stub answers as vLLM 0.32 does, and fails as it is told."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest
from openai import OpenAI

from engines.kinds import KINDS
from engines.stub.answers import pieces
from engines.stub.script import Raw
from tests.engines.stub import ROOT, StubEngine, running_stub

KEY = "stub-key"
HANG_GUARD_SECONDS = 60
HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello there"}]}
AUTHORISED = {"authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def engine() -> Iterator[StubEngine]:
    with running_stub("--api-key", KEY, "--max-model-len", "64", "--max-num-seqs", "2") as started:
        yield started


@pytest.fixture(autouse=True)
def _fresh(engine):
    engine.order(clear=True)


@pytest.fixture
def client(engine) -> OpenAI:
    return OpenAI(base_url=f"{engine.url}/v1", api_key=KEY, max_retries=0, timeout=30)


def post(engine: StubEngine, body: dict, path: str = "/v1/chat/completions") -> httpx.Response:
    return httpx.post(engine.url + path, json=body, headers=AUTHORISED, timeout=30)


def events(text: str) -> list[dict]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_GUARD_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def test_the_openai_client_reads_its_answer(engine, client):
    answer = client.chat.completions.create(**HELLO, max_tokens=3)
    assert answer.choices[0].message.content == "t1 t2 t3"
    assert answer.choices[0].finish_reason == "length"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 3)


def test_a_stream_has_a_role_then_tokens_with_running_usage_then_the_sum(engine):
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = HELLO | {"stream": True, "max_tokens": 2, "stream_options": options}
    role, first, last, total = events(post(engine, body).text)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [one["usage"]["completion_tokens"] for one in (role, first, last)] == [0, 1, 2]
    assert [one["choices"][0]["finish_reason"] for one in (first, last)] == [None, "length"]
    assert total["choices"] == []
    assert total["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_s04_no_usage_unless_asked(engine, path):
    body = HELLO | {"prompt": "hello there", "stream": True, "max_tokens": 2}
    assert not any("usage" in one for one in events(post(engine, body, path).text))


def test_a_legacy_completion_streams_text(engine):
    body = {"model": "m", "prompt": "hello there", "stream": True, "max_tokens": 2}
    first, last = events(post(engine, body, "/v1/completions").text)
    assert (first["object"], first["choices"][0]["text"]) == ("text_completion", "t1")
    assert last["choices"][0]["finish_reason"] == "length"


def test_two_choices_are_counted_in_one_sum(engine):
    usage = post(engine, HELLO | {"n": 2, "max_tokens": 3}).json()["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (2, 6)


@pytest.mark.parametrize(
    ("body", "status", "param", "message"),
    [
        ({"model": "m"}, 400, "body.messages", "'type': 'missing'"),
        (HELLO | {"model": "x"}, 404, "model", "The model `x` does not exist. Valid aliases: m."),
        (
            HELLO | {"max_tokens": 65},
            400,
            "max_tokens",
            "max_tokens=65 cannot be greater than max_model_len=64.",
        ),
        (
            HELLO | {"messages": [{"role": "user", "content": "w " * 65}]},
            400,
            "input_tokens",
            "This model's maximum context length is 64 tokens. However, your prompt contains at "
            "least 65 input tokens",
        ),
    ],
)
def test_it_refuses_in_vllms_words(engine, body, status, param, message):
    answer = post(engine, body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, status, param)
    assert message in error["message"]


def test_its_key_guards_v1_and_not_metrics(engine):
    answer = httpx.post(f"{engine.url}/v1/chat/completions", json=HELLO)
    assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})
    assert httpx.get(f"{engine.url}/v1/models").status_code == 401
    assert httpx.get(f"{engine.url}/metrics").status_code == 200
    assert httpx.get(f"{engine.url}/health").status_code == 200


def test_unknown_paths_and_methods_are_answered_as_by_vllm(engine):
    assert httpx.get(f"{engine.url}/nowhere").json() == {"detail": "Not Found"}
    assert httpx.put(f"{engine.url}/health").status_code == 405


def test_its_metrics_are_vllms_and_count_what_was_done(engine):
    def read():
        return KINDS["stub"].parse_metrics(httpx.get(f"{engine.url}/metrics").text)

    before = read()
    engine.script(cached_tokens=1)
    post(engine, HELLO | {"max_tokens": 3})
    after = read()
    assert after.prompt_tokens == before.prompt_tokens + 2
    assert after.cached_prompt_tokens == before.cached_prompt_tokens + 1
    assert after.generation_tokens == before.generation_tokens + 3
    assert after.ttft_count == before.ttft_count + 1
    assert after.tpot_count == before.tpot_count + 2
    assert after.kv_cache_tokens == 65_536


def test_calls_above_its_slots_wait_and_are_counted_as_waiting(engine):
    """A stream's head comes at once, as from vLLM: it does not say that the call has a slot."""
    engine.script(times=3, ttft_seconds=600)
    aborted = engine.seen()["aborted"]
    with ExitStack() as streams, httpx.Client(headers=AUTHORISED, timeout=30) as client:
        for _ in range(3):
            url = f"{engine.url}/v1/chat/completions"
            streams.enter_context(client.stream("POST", url, json=HELLO | {"stream": True}))
        eventually(lambda: engine.seen()["running"] == 2)
        assert engine.seen()["waiting"] == 1
    eventually(lambda: engine.seen()["aborted"] == aborted + 3)
    assert engine.seen()["running"] == engine.seen()["waiting"] == 0


def test_a_client_that_leaves_a_stream_is_seen_and_ends_it(engine):
    engine.script(tokens=60, token_seconds=0.05)
    before = engine.seen()["aborted"]
    with httpx.stream(
        "POST",
        f"{engine.url}/v1/chat/completions",
        json=HELLO | {"stream": True},
        headers=AUTHORISED,
    ) as answer:
        next(answer.iter_lines())
    eventually(lambda: engine.seen()["aborted"] == before + 1)
    seen = engine.seen()["requests"][-1]
    assert (seen["outcome"], seen["prompt_tokens"]) == ("aborted", 2)
    assert 0 < seen["tokens"] < 60


def test_a_script_serves_so_many_calls_then_the_next_one_does(engine):
    engine.script(times=2, text="first")
    engine.script(text="second")
    said = [post(engine, HELLO).json()["choices"][0]["message"]["content"] for _ in range(4)]
    assert said[:3] == ["first", "first", "second"]
    assert said[3].startswith("t1 t2")


def test_a_status_is_answered_with_vllms_error_body(engine):
    engine.script(status=503, error="queue full", retry_after="2")
    answer = post(engine, HELLO)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json()["error"]["message"] == "queue full"


def test_s07_an_engine_that_dies_says_so_under_a_200_and_ends_with_done(engine):
    engine.script(tokens=10, fail_after_tokens=2)
    answer = post(engine, HELLO | {"stream": True})
    *_, before, error = events(answer.text)
    assert answer.status_code == 200
    assert before["choices"][0]["delta"] == {"content": " t2"}
    assert error["error"]["code"] == 500


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_s06_a_stream_can_break_off_without_its_end(engine, how):
    engine.script(tokens=10, fail_after_tokens=1, fail_with=how)
    with pytest.raises(httpx.TransportError):
        post(engine, HELLO | {"stream": True})


def test_a_call_that_hangs_ends_when_its_client_leaves(engine):
    engine.script(hang=True)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{engine.url}/v1/chat/completions", json=HELLO, headers=AUTHORISED, timeout=0.2)
    eventually(lambda: engine.seen()["requests"][-1]["outcome"] == "aborted")


def test_its_health_is_what_it_is_told(engine):
    engine.order(health=503)
    assert httpx.get(f"{engine.url}/health").status_code == 503
    engine.order(clear=True)
    assert httpx.get(f"{engine.url}/health").status_code == 200


def test_thought_tokens_come_first_and_are_counted_apart(engine):
    engine.script(text="so it is", reasoning_tokens=2)
    answer = post(engine, HELLO).json()
    message, usage = answer["choices"][0]["message"], answer["usage"]
    assert (message["reasoning"], message["content"]) == ("so it", " is")
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 2}


@pytest.mark.parametrize("split", ["frame", 1, 7])
def test_raw_bytes_come_as_they_are(engine, split):
    data = b"data: a\r\n\r\ndata: \xe4\xbb\xb7\n\ndata: [DONE]\n\n"
    engine.script(raw={"hex": data.hex(), "split": split})
    assert post(engine, HELLO | {"stream": True}).content == data


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
        ({"scripts": []}, "an order has script, times, health and clear"),
    ],
)
def test_a_wrong_order_is_refused_by_name(engine, order, message):
    answer = httpx.post(f"{engine.url}/stub/script", json=order)
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
        argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=HANG_GUARD_SECONDS
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
