"""Failures of real vLLM on a CPU: recognised by their cause, cured, and serving again."""

import json
from pathlib import Path

import openai
import psycopg
import pytest

from control.placement import model as models
from control.placement.weights import Tensor
from engines import model_folder
from tests.engines.real import shared_tiny_model
from tests.flows.books import books_balance
from tests.flows.short_of_memory import Runtimes
from tests.flows.weir import HANG_SECONDS, Weir, until
from tests.threads import Threads

pytestmark = pytest.mark.engine

CONTEXT = 2048
SHORT = "memory_short_while_serving"
START_SECONDS = 600  # ten times what a start of vLLM takes on two busy cores
ARGUMENTS = {"max_model_len": CONTEXT}
SERVICE = """
apiVersion: weir/v1
tenants:
  - name: acme
    keys: [{name: ci, secret_env: ACME_KEY}]
models:
  - name: tiny
    versions:
      - name: v1
        engine: {kind: vllm, version: "0.32.0"}
        source: {path: MODEL}
        arguments: {max_model_len: CONTEXT}
        memory: {kv_tokens: CONTEXT}
deployments:
  - {name: tiny, model: tiny, version: v1, replicas: {min: N, max: N}, allow_shorter_context: true}
routes:
  - {name: tiny, targets: [{deployment: tiny}], cold_start_seconds: 590}
"""


@pytest.fixture(scope="module")
def model() -> str:
    return str(shared_tiny_model())


@pytest.fixture(scope="module")
def runtimes(tmp_path_factory) -> Runtimes:
    return Runtimes(tmp_path_factory.mktemp("runtimes"))


@pytest.fixture(scope="module")
def weir(model: str, runtimes: Runtimes):
    more = {"WEIR_ENGINE_FAST": "1", "WEIR_RUNTIMES": str(runtimes.folder)}
    made = Weir(service(model, 0), **more)
    try:
        made.with_schema().start(ready=False)
        until(lambda: made.rows("SELECT 1 FROM control_version"), "the service is applied")
        believe_half_of_its_cache(made, model)
        made.service.write_text(service(model, 1))
        done = made.weir("apply", "-f", str(made.service), "--yes")
        assert done.returncode == 0, done.stderr
        yield made
    finally:
        made.clean_up()


def service(model: str, replicas: int) -> str:
    found = SERVICE.replace("MODEL", model).replace("CONTEXT", str(CONTEXT))
    return found.replace("min: N, max: N", f"min: {replicas}, max: {replicas}")


def believe_half_of_its_cache(weir: Weir, model: str) -> None:
    """An estimate that is wrong, as one of an architecture that nobody knows would be."""
    tensors = [Tensor(*row) for row in model_folder.tensors(Path(model))]
    config = model_folder.config(Path(model))
    facts = models.read(config, tensors, ARGUMENTS).to_dict()
    facts["kv"]["full_bytes"] //= 2
    insert = (
        "INSERT INTO control_versionmeasure"
        " (version_id, weights_bytes, kv_cost, facts, measured_at)"
        " SELECT id, 1000000, %s, %s, now() FROM control_version"
    )
    with psycopg.connect(weir.connections()["database_url"], autocommit=True) as database:
        database.execute(insert, [json.dumps(facts["kv"]), json.dumps(facts)])


def failed(weir: Weir, cause: str) -> tuple[int, str] | None:
    rows = weir.rows(
        "SELECT id, reason FROM control_replica WHERE state = 'failed' AND cause = %s", cause
    )
    return rows[0] if rows else None


def causes(weir: Weir) -> list[tuple]:
    return weir.rows("SELECT state, cause, reason FROM control_replica ORDER BY id")


def serving(weir: Weir, after: int) -> tuple[int, int] | None:
    """Id and pid of a launch later than that one."""
    rows = weir.rows("SELECT id, pid FROM control_replica WHERE state = 'ready' AND id > %s", after)
    return rows[0] if rows else None


def overrides(weir: Weir, cause: str) -> list[dict]:
    rows = "SELECT changes FROM control_override WHERE cause = %s AND dropped_at IS NULL"
    return [changes for (changes,) in weir.rows(rows, cause)]


def client_of(weir: Weir, seconds: float) -> openai.OpenAI:
    url = f"{weir.gateway_url}/v1"
    return openai.OpenAI(base_url=url, api_key=weir.key, timeout=seconds, max_retries=0)


def asked(prompt: str, tokens: int) -> dict:
    more = {"ignore_eos": True}
    return {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "extra_body": more}


def ask(weir: Weir, prompt: str, tokens: int) -> int:
    answer = client_of(weir, HANG_SECONDS).completions.create(**asked(prompt, tokens))
    return answer.usage.completion_tokens


def stream(weir: Weir, prompt: str, tokens: int) -> int:
    """A stream may wait for an engine as long as the route says."""
    told = {"stream": True, "stream_options": {"include_usage": True}}
    answer = client_of(weir, START_SECONDS).completions.create(**asked(prompt, tokens), **told)
    return [chunk.usage for chunk in answer][-1].completion_tokens


def test_a_cache_too_small_for_its_context_is_launched_again_with_what_fits(weir: Weir):
    until(lambda: failed(weir, "kv_cache_too_small"), f"it fails: {causes(weir)}", START_SECONDS)
    number, reason = failed(weir, "kv_cache_too_small")
    assert "estimated maximum model length is" in reason
    until(lambda: serving(weir, number), "a shorter context that serves", START_SECONDS)
    [changes] = overrides(weir, "kv_cache_too_small")
    assert 128 <= changes["max_model_len"] < CONTEXT
    assert f"estimated maximum model length is {changes['max_model_len']}." in reason
    assert ask(weir, "abc", 8) == 8
    with pytest.raises(openai.BadRequestError) as refusal:
        ask(weir, "x" * (changes["max_model_len"] + 1), 1)
    assert refusal.value.code == "context_length_exceeded"
    books_balance(weir)


def test_memory_that_runs_out_while_it_serves_is_a_path_back_to_serving(weir: Weir, runtimes):
    """The allocator of a real engine refuses a step: it dies as vLLM dies of it."""
    number, _ = until(lambda: serving(weir, 0), "an engine that serves", START_SECONDS)
    assert ask(weir, "abc", 8) == 8
    runtimes.asked.touch()
    with Threads() as pool:
        call = pool.submit(stream, weir, "abc", 8)
        until(lambda: failed(weir, SHORT), f"it fails: {causes(weir)}", START_SECONDS)
        runtimes.asked.unlink()
        # Nobody else can run it again: it waits for the next launch, and is answered whole.
        assert call.result(START_SECONDS) == 8
    assert failed(weir, SHORT)[0] == number
    assert "DefaultCPUAllocator: can't allocate memory" in failed(weir, SHORT)[1]
    moves = "SELECT new FROM control_statechange WHERE replica_id = %s ORDER BY id DESC LIMIT 1"
    assert weir.rows(moves, number) == [("failed",)]
    until(lambda: serving(weir, number), "the next launch", START_SECONDS)
    [changes] = overrides(weir, SHORT)
    assert changes["max_num_seqs"] >= 1
    assert changes["max_num_batched_tokens"] >= 256
    guarded = "SELECT guarded_until > now() FROM control_deployment WHERE guarded_since IS NOT NULL"
    assert weir.rows(guarded) == [(True,)]
    assert ask(weir, "abc", 8) == 8
    books_balance(weir)
