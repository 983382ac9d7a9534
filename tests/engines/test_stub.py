"""The stub answers as vLLM 0.32 does."""

from contextlib import ExitStack

import httpx
import pytest
from openai import OpenAI

from engines.kinds import KINDS
from tests.engines.stub import (
    AUTHORISED,
    HELLO,
    KEY,
    events,
    eventually,
)


@pytest.fixture
def client(engine) -> OpenAI:
    return OpenAI(base_url=f"{engine.url}/v1", api_key=KEY, max_retries=0, timeout=30)


def test_the_openai_client_reads_its_answer(engine, client):
    answer = client.chat.completions.create(**HELLO, max_tokens=3)
    assert answer.choices[0].message.content == "t1 t2 t3"
    assert answer.choices[0].finish_reason == "length"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 3)


def test_a_stream_has_a_role_then_tokens_with_running_usage_then_the_sum(engine):
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = HELLO | {"stream": True, "max_tokens": 2, "stream_options": options}
    role, first, last, total = events(engine.post(body).text)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [one["usage"]["completion_tokens"] for one in (role, first, last)] == [0, 1, 2]
    assert [one["choices"][0]["finish_reason"] for one in (first, last)] == [None, "length"]
    assert total["choices"] == []
    assert total["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_s04_no_usage_unless_asked(engine, path):
    body = HELLO | {"prompt": "hello there", "stream": True, "max_tokens": 2}
    assert not any("usage" in one for one in events(engine.post(body, path).text))


def test_a_legacy_completion_streams_text(engine):
    body = {"model": "m", "prompt": "hello there", "stream": True, "max_tokens": 2}
    first, last = events(engine.post(body, "/v1/completions").text)
    assert (first["object"], first["choices"][0]["text"]) == ("text_completion", "t1")
    assert last["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_token_ids_are_told_when_asked_and_gone_on_from(engine, path):
    asked = HELLO | {"prompt": "hello there", "stream": True, "return_token_ids": True}
    told = events(engine.post(asked | {"max_tokens": 6}, path).text)
    choices = [choice for chunk in told for choice in chunk["choices"]]
    prompt = told[0].get("prompt_token_ids") or choices[0]["prompt_token_ids"]
    ids = [id_ for choice in choices for id_ in choice.get("token_ids") or ()]
    assert (len(prompt), len(ids)) == (2, 6)
    rest = {"model": "m", "stream": True, "prompt": prompt + ids[:2], "max_tokens": 4}
    gone_on = events(engine.post(rest | {"return_token_ids": True}, "/v1/completions").text)
    assert "".join(chunk["choices"][0]["text"] for chunk in gone_on) == " t3 t4 t5 t6"
    assert [chunk["choices"][0]["token_ids"][0] for chunk in gone_on] == ids[2:]
    assert 'token_ids":[' not in engine.post(HELLO | {"stream": True}).text


def test_two_choices_are_counted_in_one_sum(engine):
    usage = engine.post(HELLO | {"n": 2, "max_tokens": 3}).json()["usage"]
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
    answer = engine.post(body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, status, param)
    assert message in error["message"]


def test_its_key_guards_v1_and_not_metrics(engine):
    answer = httpx.post(f"{engine.url}/v1/chat/completions", json=HELLO, timeout=30)
    assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})
    assert httpx.get(f"{engine.url}/v1/models", timeout=30).status_code == 401
    assert httpx.get(f"{engine.url}/metrics", timeout=30).status_code == 200
    assert httpx.get(f"{engine.url}/health", timeout=30).status_code == 200


def test_unknown_paths_and_methods_are_answered_as_by_vllm(engine):
    assert httpx.get(f"{engine.url}/nowhere", timeout=30).json() == {"detail": "Not Found"}
    assert httpx.put(f"{engine.url}/health").status_code == 405


def test_its_metrics_are_vllms_and_count_what_was_done(engine):
    def read():
        return KINDS["stub"].parse_metrics(httpx.get(f"{engine.url}/metrics", timeout=30).text)

    before = read()
    engine.script(cached_tokens=1)
    engine.post(HELLO | {"max_tokens": 3})
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
