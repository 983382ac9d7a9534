"""A failure of real vLLM on a CPU: recognised by its cause, cured, and serving again."""

import json
from pathlib import Path

import openai
import psycopg
import pytest

from control.placement import model as models
from control.placement.weights import Tensor
from engines import model_folder
from tests.engines.real import install_runtime, make_tiny_model
from tests.flows.books import books_balance
from tests.flows.weir import HANG_SECONDS, Weir, until
from tests.servers import SHARED

pytestmark = pytest.mark.engine

CONTEXT = 2048
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
  - {name: tiny, targets: [{deployment: tiny}]}
"""


@pytest.fixture(scope="module")
def model() -> str:
    folder = SHARED / "tiny-model"
    if not (folder / "model.safetensors").exists():
        make_tiny_model(folder, install_runtime())
    return str(folder)


@pytest.fixture(scope="module")
def weir(model: str):
    made = Weir(service(model, 0), WEIR_ENGINE_FAST="1")
    try:
        made.start(ready=False)
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


def ask(weir: Weir, prompt: str, tokens: int) -> int:
    client = openai.OpenAI(
        base_url=f"{weir.gateway_url}/v1", api_key=weir.key, timeout=HANG_SECONDS, max_retries=0
    )
    answer = client.completions.create(
        model="tiny", prompt=prompt, max_tokens=tokens, extra_body={"ignore_eos": True}
    )
    return answer.usage.completion_tokens


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
