"""Real vLLM on this machine: installed, launched, asked, measured, stopped."""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from control.management.local.ports import free_port
from control.placement import memory, model
from control.placement.weights import Tensor
from engines import model_folder, processes, shared_memory, supervisor
from engines.kinds import KINDS
from engines.spec import EngineRecord, EngineSpec
from engines.vllm import choices
from tests.engines.real import VERSION, install_runtime, make_tiny_model

pytestmark = pytest.mark.engine
VLLM = KINDS["vllm"]
HANG_GUARD_SECONDS = 900
KEY = "engine-key"


@dataclass(frozen=True)
class Engine:
    record: EngineRecord
    folder: Path
    phases: list[str]

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url(path), timeout=60)

    def chat(self, **members) -> httpx.Response:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
        headers = {"authorization": f"Bearer {KEY}"}
        return httpx.post(
            self.url("/v1/chat/completions"), json=body | members, headers=headers, timeout=60
        )

    def complete(self, prompt: list[int], **members) -> httpx.Response:
        headers = {"authorization": f"Bearer {KEY}"}
        body = {"model": "tiny", "prompt": prompt} | members
        return httpx.post(self.url("/v1/completions"), json=body, headers=headers, timeout=60)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.record.port}{path}"


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[Engine]:
    home = tmp_path_factory.mktemp("home")
    runtime = install_runtime()
    weights = make_tiny_model(home / "tiny", runtime)
    folder = home / "engines" / "replica-1"
    spec = EngineSpec(
        replica_id=1,
        generation=1,
        kind="vllm",
        version=VERSION,
        served_name="tiny",
        weights=str(weights),
        host="127.0.0.1",
        port=free_port(),
        api_key=KEY,
        device_kind="cpu",
        kv_cache_bytes=64 << 20,
        slots=4,
        arguments={"max_model_len": 512},
    )
    node = {"WEIR_HOME": str(home), "PATH": os.environ["PATH"], "WEIR_ENGINE_FAST": "1"}
    record = supervisor.launch(spec, VLLM.build_command(spec, runtime, node), folder, str(home))
    try:
        yield Engine(record, folder, watch_it_start(record, folder))
    finally:
        assert supervisor.stop(folder, grace_seconds=10).gone


def watch_it_start(record: EngineRecord, folder: Path) -> list[str]:
    """The phases as a node would see them, until the engine serves."""
    phases: list[str] = []
    url = f"http://{record.host}:{record.port}/health"
    deadline = time.monotonic() + HANG_GUARD_SECONDS
    while time.monotonic() < deadline:
        log = supervisor.log_text(folder)
        assert supervisor.alive(record), VLLM.read_cause(log, supervisor.exit_code(record))
        phase = VLLM.read_phase(log).name
        if phase not in phases[-1:]:
            phases.append(phase)
        if phase == "ready" and httpx.get(url, timeout=60).status_code == 200:
            return phases
        time.sleep(0.05)
    raise AssertionError(f"not ready; it saw {phases}; the log ends {supervisor.log_tail(folder)}")


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_GUARD_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def test_its_phases_come_in_order_and_end_in_ready(engine):
    order = ["starting", "loading", "warming", "ready"]
    assert engine.phases[0] == "starting"
    assert engine.phases[-1] == "ready"
    assert engine.phases == [name for name in order if name in engine.phases]


def test_it_answers_a_chat_with_usage_that_tells_cached_tokens(engine):
    answer = engine.chat().json()
    assert answer["model"] == "tiny"
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0


def test_a_stream_carries_running_usage_when_asked(engine):
    options = {"include_usage": True, "continuous_usage_stats": True}
    text = engine.chat(stream=True, stream_options=options).text
    events = [line for line in text.splitlines() if line.startswith("data: {")]
    assert all('"usage"' in event for event in events)
    assert '"choices":[]' in events[-1]
    assert text.endswith("data: [DONE]\n\n")


def test_its_stream_tells_token_ids_and_it_goes_on_from_them_with_the_same_tokens(engine):
    options = {"include_usage": True, "continuous_usage_stats": True}
    asked = {"stream": True, "stream_options": options, "return_token_ids": True, "temperature": 0}
    whole = told(engine.chat(**asked, max_tokens=16, ignore_eos=True).text)
    prompt = whole[0]["prompt_token_ids"]
    choices = [choice for chunk in whole for choice in chunk["choices"]]
    ids = [id_ for choice in choices for id_ in choice.get("token_ids") or ()]
    assert len(ids) == 16
    assert len(prompt) == whole[0]["usage"]["prompt_tokens"]
    rest = told(engine.complete(prompt + ids[:5], **asked, max_tokens=11, ignore_eos=True).text)
    gone_on = [choice for chunk in rest for choice in chunk["choices"]]
    assert [id_ for choice in gone_on for id_ in choice["token_ids"]] == ids[5:]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    assert text.endswith("".join(choice["text"] for choice in gone_on))
    refused = engine.complete(prompt, max_tokens=10_000_000)
    assert "max_tokens=10000000 cannot be greater than max_model_len=512" in refused.text
    most = engine.complete(prompt, max_tokens=512, ignore_eos=True).json()["usage"]
    assert most["total_tokens"] == 512


def told(text: str) -> list[dict]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line[:7] == "data: {"]
    return [json.loads(line) for line in lines]


def test_its_key_is_wanted(engine):
    assert engine.get("/v1/models").status_code == 401


def test_its_metrics_are_read(engine):
    before = VLLM.parse_metrics(engine.get("/metrics").text)
    usage = engine.chat().json()["usage"]
    eventually(
        lambda: (
            VLLM.parse_metrics(engine.get("/metrics").text).generation_tokens
            == before.generation_tokens + usage["completion_tokens"]
        )
    )
    load = VLLM.parse_metrics(engine.get("/metrics").text)
    assert load.prompt_tokens == before.prompt_tokens + usage["prompt_tokens"]
    assert load.ttft_count == before.ttft_count + 1
    assert load.started_at_seconds > 0
    # Two layers of four heads of 32 in two bytes, keys and values: 1,024 bytes a token.
    assert load.kv_cache_tokens == (64 << 20) // 1024


def test_the_estimate_of_its_cache_is_what_it_logged(engine):
    arguments = {"max_model_len": 512}
    weights = engine.folder.parent.parent / "tiny"
    rows = [Tensor(*row) for row in model_folder.tensors(weights)]
    facts = model.read(model_folder.config(weights), rows, arguments)
    estimate = memory.kv_tokens(64 << 20, facts.kv, memory.demand_of(arguments, None), "cpu")
    assert f"KV cache size: {estimate:,} tokens" in supervisor.log_text(engine.folder)


def test_the_formats_that_a_version_may_name_are_those_that_it_has():
    def named(file, kind):
        text = next(install_runtime().glob(f"lib/python3*/site-packages/vllm/{file}")).read_text()
        literal = text.partition(f"{kind} = Literal[")[2].partition("\n]")[0]
        return set(re.findall(r'^    "([^"]+)",', literal, re.MULTILINE))

    formats = "model_executor/layers/quantization/__init__.py"
    assert set(choices.QUANTIZATIONS) == named(formats, "QuantizationMethods")
    assert set(choices.CACHE_TYPES) == named("config/cache.py", "CacheDType")


# Of what is named so, its configuration says only what the least demanding of its kernels wants.
STRICTER_AT_ITS_KERNELS = {"fp8_per_channel", "nvfp4_per_token"}
ASK_CAPABILITIES = """
import json, sys
from vllm.model_executor.layers.quantization import get_quantization_config
print(json.dumps({one: get_quantization_config(one).get_min_capability() for one in sys.argv[1:]}))
"""


def test_a_format_wants_the_compute_capability_that_its_release_says():
    argv = [install_runtime() / "bin" / "python", "-P", "-c", ASK_CAPABILITIES]
    asked = subprocess.run(
        [*argv, *choices.QUANTIZATIONS], check=True, capture_output=True, timeout=HANG_GUARD_SECONDS
    )
    told = json.loads(asked.stdout.splitlines()[-1])
    for name, least in told.items():
        wanted = choices.card_wanted(name, "auto", "auto").capability
        ours, theirs = 10 * wanted[0] + wanted[1], max(least, 75)
        assert ours > theirs if name in STRICTER_AT_ITS_KERNELS else ours == theirs, name


def test_e01_its_orphans_are_found_though_they_hide_their_environment(engine):
    """vLLM renames its processes, which overwrites what /proc shows of their environment."""
    workers = [one for one in supervisor.members(engine.record) if one.pid != engine.record.pid]
    assert workers
    assert all(one.session == engine.record.pid for one in workers)


def test_zz_killed_with_9_it_stops_whole_and_leaves_no_shared_memory(engine):
    """Last of the file: it ends the engine the others asked."""
    members = supervisor.members(engine.record)
    os.kill(engine.record.pid, 9)
    eventually(lambda: not supervisor.alive(engine.record))
    assert supervisor.adopt(engine.folder) is None
    assert supervisor.stop(engine.folder, grace_seconds=10).gone
    assert [one for one in members if processes.same(one.pid, one.start_ticks, THIS_BOOT)] == []
    started = processes.started_at_seconds(engine.record.start_ticks)
    # Engines of other tests, which live, have segments too.
    assert [name for name in segments_since(started) if name not in used_now()] == []


def segments_since(seconds: float) -> list[str]:
    names = []
    for path in shared_memory.SHM.glob("psm_*"):
        with suppress(FileNotFoundError):
            names += [path.name] if path.stat().st_ctime >= seconds else []
    return names


def used_now() -> set[str]:
    return shared_memory._in_use({path.name for path in shared_memory.SHM.glob("psm_*")})


THIS_BOOT = processes.this_boot()
