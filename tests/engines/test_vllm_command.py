"""One spec gives one argv and one environment; what is not allowed is refused by name."""

from dataclasses import replace
from pathlib import Path

import pytest

from engines.spec import BadSpec, EngineSpec
from engines.vllm.command import ARGUMENTS, ELSEWHERE, build_command

RUNTIME = Path("/runtimes/vllm")
NODE = {
    "PATH": "/usr/bin",
    "WEIR_HOME": "/home/weir",
    "WEIR_SECRET": "s",
    "WEIR_DATABASE_URL": "postgresql://u:p@db/weir",
    "LD_LIBRARY_PATH": "/usr/local/cuda",
    "FAKE_NVML_STATE": "/tmp/state",
    "VLLM_CPU_KVCACHE_SPACE": "",
}
CPU = EngineSpec(
    replica_id=7,
    generation=1,
    kind="vllm",
    version="0.32.0",
    served_name="gemma",
    weights="/weights/gemma",
    host="127.0.0.1",
    port=18000,
    api_key="engine-secret",
    device_kind="cpu",
    kv_cache_bytes=64 << 20,
    slots=8,
    arguments={"max_model_len": 2048, "enable_prefix_caching": False},
)
GPU = replace(
    CPU, device_kind="gpu", device_uuids=("GPU-1", "GPU-2"), kv_cache_bytes=None, memory_ratio=0.9
)


def test_an_engine_for_cpu_gets_its_reserved_bytes_and_runs_eagerly():
    assert build_command(CPU, RUNTIME, NODE).argv == (
        *("/runtimes/vllm/bin/python", "-P", "-m", "vllm.entrypoints.cli.main"),
        *("serve", "/weights/gemma"),
        *("--served-model-name", "gemma"),
        *("--host", "127.0.0.1"),
        *("--port", "18000"),
        *("--max-num-seqs", "8"),
        *("--kv-cache-memory-bytes", "67108864"),
        "--enable-prompt-tokens-details",
        "--disable-uvicorn-access-log",
        *("--load-format", "safetensors"),
        "--enforce-eager",
        "--no-enable-prefix-caching",
        *("--max-model-len", "2048"),
    )


def test_an_engine_for_gpu_gets_its_share_and_its_cards_and_compiles():
    command = build_command(GPU, RUNTIME, NODE)
    assert "--gpu-memory-utilization 0.9000" in " ".join(command.argv)
    assert "--enforce-eager" not in command.argv
    assert command.env["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"
    assert command.env["LD_LIBRARY_PATH"] == "/usr/local/cuda"


def test_the_environment_is_short_and_holds_no_secret_of_the_platform():
    env = build_command(CPU, RUNTIME, NODE).env
    assert env == {
        "PATH": "/usr/bin",
        "WEIR_HOME": "/home/weir",
        "WEIR_REPLICA": "7",
        "VLLM_API_KEY": "engine-secret",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        "VLLM_RPC_BASE_PATH": ".",
        "VLLM_ENGINE_READY_TIMEOUT_S": "14400",
        "CUDA_VISIBLE_DEVICES": "",
        "VLLM_CACHE_ROOT": "/home/weir/cache/vllm",
        "VLLM_CPU_OMP_THREADS_BIND": "auto",
    }


def test_the_engines_key_is_not_in_argv_which_every_user_can_read():
    assert "engine-secret" not in " ".join(build_command(CPU, RUNTIME, NODE).argv)


def test_the_fast_launcher_is_chosen_by_the_nodes_environment():
    command = build_command(CPU, RUNTIME, NODE | {"WEIR_ENGINE_FAST": "1"})
    assert command.argv[2].endswith("engines/vllm/fast.py")
    assert command.argv[3:5] == ("--model", "/weights/gemma")
    assert command.env["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_modellen": 1}, "vLLM 0.32.0 knows no such argument; did you mean 'max_model_len'?"),
        ({"zzz": 1}, "known are block_size, cpu_offload_gb, dtype, "),
        ({"max_model_len": "2048"}, "'max_model_len' must be a whole number from 1, not '2048'"),
        ({"max_model_len": True}, "must be a whole number"),
        ({"max_model_len": 0}, "must be a whole number from 1"),
        ({"enforce_eager": "yes"}, "'enforce_eager' must be true or false"),
        ({"dtype": "int3"}, "must be one of auto, bfloat16"),
        ({"quantization": "../../etc"}, "must be one of awq"),
        ({"quantization": "bitsandbytes"}, "must be one of awq"),
        ({"quantization": "gguf"}, "must be one of awq"),
        ({"kv_cache_dtype": "float32"}, "must be one of auto"),
        ({"tool_call_parser": "../../etc"}, "must be a word"),
        ({"pipeline_parallel_size": 2}, "the placement (tensor_parallel_size"),
        ({"api_key": "x"}, "the replica decides this"),
    ],
)
def test_an_argument_that_is_not_allowed_is_refused_by_name(arguments, message):
    with pytest.raises(BadSpec) as refusal:
        build_command(replace(CPU, arguments=arguments), RUNTIME, NODE)
    assert message in str(refusal.value)


def test_a_shared_card_has_a_fixed_cache_and_says_what_must_be_free():
    spec = replace(GPU, kv_cache_bytes=2**30, memory_ratio=0.3)
    argv = " ".join(build_command(spec, RUNTIME, {}).argv)
    assert "--kv-cache-memory-bytes 1073741824 --gpu-memory-utilization 0.3000" in argv


def test_a_spec_without_a_size_is_refused_because_vllm_would_take_all_memory():
    with pytest.raises(BadSpec, match="neither kv_cache_bytes nor memory_ratio"):
        build_command(replace(CPU, kv_cache_bytes=None), RUNTIME, NODE)


def test_what_sets_the_batch_is_said_once_each():
    arguments = {
        "max_num_seqs": 8,
        "max_num_batched_tokens": 4096,
        "speculative_method": "ngram",
        "speculative_tokens": 4,
        "cpu_offload_gb": 2.5,
    }
    argv = " ".join(build_command(replace(CPU, arguments=arguments), RUNTIME, NODE).argv)
    assert argv.count("--max-num-seqs 8") == 1
    assert "--spec-method ngram --spec-tokens 4" in argv
    assert "--max-num-batched-tokens 4096" in argv
    assert "--cpu-offload-gb 2.5" in argv
    assert "speculative" not in argv


def test_pickles_are_loaded_only_where_an_owner_allowed_them():
    allowed = replace(CPU, unsafe=("pickle",))
    assert "--load-format" not in build_command(allowed, RUNTIME, NODE).argv


@pytest.mark.parametrize(
    "flag",
    ["host", "port", "served-model-name", "max-num-seqs", "kv-cache-memory-bytes", "load-format",
     "gpu-memory-utilization", "enable-prompt-tokens-details", "disable-uvicorn-access-log"],
)  # fmt: skip
def test_what_weir_sets_no_version_may_set(flag):
    """Else it would be said twice, and the engine would take the last."""
    command = build_command(replace(GPU, kv_cache_bytes=1 << 30), RUNTIME, NODE)
    assert f"--{flag}" in command.argv
    name = flag.replace("-", "_")
    if name != "max_num_seqs":  # of the version, or computed: said once
        assert name in ELSEWHERE
    assert sum(one == f"--{flag}" for one in command.argv) == 1


def test_every_argument_is_the_versions_or_weirs():
    assert not set(ARGUMENTS) & set(ELSEWHERE)


def test_sleep_brings_its_switch_and_dev_mode_and_nothing_else_does():
    plain, sleeps = (build_command(one, RUNTIME, NODE) for one in (GPU, replace(GPU, sleep=True)))
    assert set(sleeps.argv) - set(plain.argv) == {"--enable-sleep-mode"}
    assert dict(sleeps.env.items() - plain.env.items()) == {"VLLM_SERVER_DEV_MODE": "1"}
    assert sleeps.env["VLLM_API_KEY"] == "engine-secret"


def test_an_engine_for_cpu_cannot_sleep_and_says_why():
    with pytest.raises(BadSpec, match="frees nothing"):
        build_command(replace(CPU, sleep=True), RUNTIME, NODE)
