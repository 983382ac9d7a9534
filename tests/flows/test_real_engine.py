"""The main job on real vLLM: apply, READY, chat, usage, adoption, replacement, drain, gone."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import openai
import psutil
import pytest

from tests.engines.real import LENT, shared_tiny_model
from tests.flows.books import books_balance
from tests.flows.drift import engines_agree
from tests.flows.tiny import CONTEXT, TOKENS, answer, client, cut, cut_by, load
from tests.flows.weir import HANG_SECONDS, Weir, is_alive, until

pytestmark = pytest.mark.engine

SERVICE = """
apiVersion: weir/v1
tenants:
  - name: acme
    priority: interactive
    limits: {requests_per_minute: 600, concurrent_calls: 8}
    keys: [{name: ci, secret_env: ACME_KEY}]
models:
  - name: tiny
    versions:
      - name: v1
        engine: {kind: vllm, version: "0.32.0"}
        source: {path: MODEL}
        arguments: {max_model_len: CONTEXT}
        memory: {calls: 2}
DEPLOYMENTS
prices:
  - {model: tiny, currency: USD, per_million: {input: "0.10", cached_input: "0.02", output: "0.40"}}
cost_rates:
  - {device: "*", currency: USD, hardware_per_hour: "2.50", power_watts: 700,
     power_per_kwh: "0.12", pue: 1.35, engineering_per_hour: "0.40"}
"""
SERVED = """
deployments:
  - {name: tiny, model: tiny, version: v1, replicas: {min: 1, max: 1}}
routes:
  - {name: chat-tiny, targets: [{deployment: tiny, weight: 100}]}
"""
WEIR_HANG = 15  # seconds without a token: more than a busy machine needs for one
QUESTION = [{"role": "user", "content": "abc"}]


@pytest.fixture(scope="module")
def model() -> str:
    return str(shared_tiny_model())


@pytest.fixture(scope="module")
def weir(model: str):
    more = {"WEIR_ENGINE_FAST": "1", "WEIR_HANG_SECONDS": str(WEIR_HANG)}
    weir = Weir(service(model, SERVED), **LENT, **more)
    try:
        weir.with_schema().start(ready=False)
        # A start of vLLM takes half a minute on two idle cores; the guard is ten times that.
        weir.wait_until_ready(600)
        yield weir
    finally:
        weir.clean_up()


def service(model: str, deployments: str) -> str:
    filled = SERVICE.replace("MODEL", model).replace("CONTEXT", str(CONTEXT))
    return filled.replace("DEPLOYMENTS", deployments)


def events(weir: Weir) -> list[tuple]:
    return weir.rows(
        "SELECT input_tokens, cached_input_tokens, output_tokens, outcome, tokens_source"
        " FROM control_usageevent ORDER BY started_at"
    )


def replica(weir: Weir, state: str = "ready") -> tuple[int, int] | None:
    rows = weir.rows("SELECT id, pid FROM control_replica WHERE state = %s", state)
    return rows[0] if rows else None


def test_chat_through_the_gateway_is_metered_as_the_engine_counted_it(weir: Weir):
    known = len(events(weir))
    answer = client(weir).chat.completions.create(
        model="chat-tiny", messages=QUESTION, max_tokens=8, temperature=0
    )
    assert answer.model == "chat-tiny"
    assert answer.usage.completion_tokens == 8
    stream = client(weir).chat.completions.create(
        model="chat-tiny",
        messages=QUESTION,
        max_tokens=8,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    usage = [chunk.usage for chunk in chunks if chunk.usage]
    assert len(usage) == 1
    assert chunks[-1].choices == []
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == answer.choices[0].message.content
    until(lambda: len(events(weir)) == known + 2, "two usage events")
    for event, said in zip(events(weir)[known:], [answer.usage, usage[0]], strict=True):
        cached = said.prompt_tokens_details.cached_tokens if said.prompt_tokens_details else 0
        counted = (said.prompt_tokens, cached or 0, said.completion_tokens)
        assert event == (*counted, "complete", "engine")
    books_balance(weir, known + 2)


def test_what_only_vllm_can_judge_comes_back_as_its_own_refusal(weir: Weir):
    with pytest.raises(openai.BadRequestError) as refusal:
        client(weir).chat.completions.create(
            model="chat-tiny",
            messages=[{"role": "user", "content": "x" * (CONTEXT + 88)}],
            max_tokens=1,
        )
    assert refusal.value.code == "context_length_exceeded"


def test_a_call_without_max_tokens_gets_what_its_prompt_leaves_of_the_context(weir: Weir):
    answer = client(weir).completions.create(
        model="chat-tiny",
        prompt="x" * (CONTEXT - 22),
        temperature=0,
        extra_body={"ignore_eos": True},
    )
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.total_tokens == CONTEXT


def test_a_killed_node_agent_leaves_the_engine_and_adopts_it_again(weir: Weir):
    number, pid = replica(weir)
    agent = weir.pids()["node"]
    os.kill(agent, signal.SIGKILL)
    until(lambda: weir.pids().get("node") not in (None, agent), "a new node agent")
    answer = client(weir).completions.create(model="chat-tiny", prompt="abc", max_tokens=4)
    assert answer.usage.completion_tokens == 4
    assert replica(weir) == (number, pid)
    assert is_alive(pid)
    books_balance(weir)


def parts(pid: int) -> dict[str, int]:
    """The engine's processes: who answers, and who computes."""
    children = psutil.Process(pid).children(recursive=True)
    [core] = [one for one in children if "EngineCore" in " ".join([one.name(), *one.cmdline()])]
    return {"front": pid, "core": core.pid}


def replaced(weir: Weir, number: int) -> tuple[str, str]:
    """State and cause of the launch that another one serves for by now."""
    until(lambda: (new := replica(weir)) and new[0] != number, "a new ready replica", 600)
    return weir.rows("SELECT state, cause FROM control_replica WHERE id = %s", number)[0]


def serves(weir: Weir) -> bool:
    answer = client(weir).completions.create(model="chat-tiny", prompt="abc", max_tokens=4)
    return answer.usage.completion_tokens == 4


@pytest.mark.parametrize("killed", ["front", "core"])
def test_e01_whichever_process_is_killed_all_of_it_goes_and_a_new_launch_serves(weir, killed):
    number, pid = replica(weir)
    processes = parts(pid)
    os.kill(processes[killed], signal.SIGKILL)
    state, cause = replaced(weir, number)
    assert (state, bool(cause)) == ("failed", True)
    assert not any(is_alive(process) for process in processes.values())
    assert serves(weir)
    books = books_balance(weir)
    assert books.booked == {replica(weir)[0]}


def test_e02_an_engine_that_hangs_is_noticed_left_and_replaced(weir):
    number, pid = replica(weir)
    core = parts(pid)["core"]
    # /health answers 200 all the while: it is the front's.
    cut_by(lambda: os.kill(core, signal.SIGSTOP), weir)
    assert replaced(weir, number) == ("failed", "hung")
    assert not is_alive(core)
    moves = "SELECT new FROM control_statechange WHERE replica_id = %s ORDER BY id DESC LIMIT 2"
    assert weir.rows(moves, number) == [("failed",), ("unhealthy",)]
    assert serves(weir)
    books_balance(weir)


def test_e01_all_of_it_killed_at_once_a_new_launch_serves_and_the_books_say_what_was_made(weir):
    number, pid = replica(weir)
    several = {"model": "chat-tiny", "prompt": "a b c", "max_tokens": 8, "n": 2}
    assert client(weir).completions.create(**several).usage.completion_tokens == 16
    for chunks in (0, 1, 20):
        cut(weir, chunks)
    assert answer(weir, 50) == 50
    cut_by(lambda: os.killpg(pid, signal.SIGKILL), weir)
    state, cause = replaced(weir, number)
    assert (state, bool(cause)) == ("failed", True)
    assert serves(weir)
    hours = engines_agree(weir)
    by_replica = {hour["replica_id"]: hour for hour in hours}
    assert set(by_replica) >= {number, replica(weir)[0]}
    assert by_replica[number]["cut_attempts"] >= 3
    # Warm-up calls and one answer, each told to its end: the books leave no room at all.
    last = by_replica[replica(weir)[0]]
    assert last["cut_attempts"] == 0
    assert last["attempted"] == last["engine"] == last["attempted_min"] == last["attempted_max"]


def test_e06_taken_out_of_the_file_under_load_it_loses_no_token_and_is_gone(weir, model):
    known = len(events(weir))
    number, pid = replica(weir)
    weir.service.write_text(service(model, ""))
    enough = Event()
    with ThreadPoolExecutor() as pool:
        calls = [pool.submit(load, weir, enough) for _ in range(2)]
        try:
            until(lambda: len(events(weir)) > known, "answers under way")
            done = weir.weir("apply", "-f", str(weir.service), "--yes", "--prune")
            assert done.returncode == 0, done.stderr
            whole = [tokens for call in calls for tokens in call.result(HANG_SECONDS)]
        finally:
            enough.set()
    until(lambda: replica(weir, "stopped"), "a stopped replica")
    assert replica(weir, "stopped")[0] == number
    assert not is_alive(pid)
    assert set(whole) == {TOKENS}
    books = books_balance(weir, known + len(whole))
    assert books.booked == set()
    ends = {(tokens, outcome) for _, _, tokens, outcome, _ in events(weir)[known:]}
    assert ends == {(TOKENS, "complete")}
    with pytest.raises(openai.NotFoundError):
        client(weir).completions.create(model="chat-tiny", prompt="abc", max_tokens=1)
