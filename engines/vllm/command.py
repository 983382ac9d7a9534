"""An EngineSpec -> argv and environment of vLLM 0.32."""

from collections.abc import Mapping
from pathlib import Path

from engines.arguments import Argument, Value, check_arguments, flags
from engines.spec import BadSpec, Command, EngineSpec
from engines.vllm import choices

ARGUMENTS: dict[str, Argument] = {
    "max_model_len": Argument.whole(1),
    "max_num_seqs": Argument.whole(1),
    "max_num_batched_tokens": Argument.whole(1),
    # Methods that need no weights of their own; a draft model would be a second artifact.
    "speculative_method": Argument.one_of("ngram", "mtp"),
    "speculative_tokens": Argument.whole(1),
    "cpu_offload_gb": Argument.number(),
    "max_num_queued_reqs": Argument.whole(1),
    "max_num_queued_tokens": Argument.whole(1),
    "block_size": Argument.whole(1),
    "seed": Argument.whole(0),
    "dtype": Argument.one_of("auto", "bfloat16", "float16", "float32", "half", "float"),
    "quantization": Argument.one_of(*choices.QUANTIZATIONS),
    "kv_cache_dtype": Argument.one_of(*choices.CACHE_TYPES),
    "tensor_parallel_size": Argument.whole(1),
    "enable_expert_parallel": Argument.switch(),
    "enable_prefix_caching": Argument.switch(),
    "enable_chunked_prefill": Argument.switch(),
    "enforce_eager": Argument.switch(),
    "prefix_caching_hash_algo": Argument.one_of("sha256", "sha256_cbor", "xxhash", "xxhash_cbor"),
    "scheduling_policy": Argument.one_of("fcfs", "priority"),
    "performance_mode": Argument.one_of("balanced", "interactivity", "throughput"),
    "generation_config": Argument.one_of("auto", "vllm"),
    "reasoning_parser": Argument.word(),
    "tool_call_parser": Argument.word(),
    "enable_auto_tool_choice": Argument.switch(),
    "trust_remote_code": Argument.switch(),
}
# What a spec says in fields of its own; as an argument it would be said twice.
ELSEWHERE = {
    "kv_cache_memory_bytes": "the placement",
    "gpu_memory_utilization": "the placement",
    "served_model_name": "the model's name",
    "host": "the node",
    "port": "the node",
    "api_key": "the replica",
    "model": "the version's source",
    "tokenizer": "the version's source",
    "load_format": "the version (unsafe: {pickle: why})",
    "download_dir": "the node",
    "uds": "the node",
    "root_path": "the gateway",
    "ssl_keyfile": "the gateway",
    "ssl_certfile": "the gateway",
    "enable_prompt_tokens_details": "the meter",
    "enable_force_include_usage": "the meter",
    "disable_log_stats": "the meter",
    "disable_uvicorn_access_log": "the node",
    "num_gpu_blocks_override": "the placement",
    "data_parallel_size": "the deployment (replicas)",
    "pipeline_parallel_size": "the placement (tensor_parallel_size: over cards of one host)",
    "enable_sleep_mode": "the deployment (scaling.sleep)",
    "headless": "the node",
}

# Said in other words than the flag's, or by a field of the spec that follows from them.
_OTHERWISE = ("max_num_seqs", "speculative_method", "speculative_tokens")

# Nothing of the node's own environment reaches an engine but these: no database URL, no secret.
_PASSED = (
    *("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "WEIR_HOME"),
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"),
)
# Only where there is a card: libraries on this path make vLLM for CPU find a "GPU".
_PASSED_TO_GPU_ENGINES = ("LD_LIBRARY_PATH", "FAKE_NVML_STATE")
_PASSED_TO_GPU_PREFIXES = ("NCCL_", "CUDA_HOME", "CUDA_PATH", "UCX_", "NVIDIA_")
READY_WAIT_SECONDS = 4 * 3600
_FAST = Path(__file__).with_name("fast.py")


def build_command(spec: EngineSpec, runtime: Path, base_env: Mapping[str, str]) -> Command:
    """`runtime` is the engine's virtual environment; `base_env` the environment of the node."""
    check_arguments(f"vLLM {spec.version}", spec.arguments, ARGUMENTS, ELSEWHERE)
    fast = base_env.get("WEIR_ENGINE_FAST") == "1"
    argv = (
        *_entry(runtime, spec.weights, fast),
        *("--served-model-name", spec.served_name),
        *("--host", spec.host),
        *("--port", str(spec.port)),
        *("--max-num-seqs", str(spec.slots)),
        *_memory(spec),
        # Cached tokens are priced apart; without this vLLM does not tell them.
        "--enable-prompt-tokens-details",
        "--disable-uvicorn-access-log",
        *_format(spec),
        *_device_flags(spec),
        *_sleep(spec),
        *_speculation(spec.arguments),
        *flags(_plain(spec.arguments), ARGUMENTS),
    )
    return Command(argv, _environment(spec, base_env, fast))


def _entry(runtime: Path, weights: str, fast: bool) -> tuple[str, ...]:
    # -P: without it the folder of the script would be importable, and shadow libraries.
    python = (str(runtime / "bin" / "python"), "-P")
    if fast:
        return (*python, str(_FAST), "--model", weights)
    return (*python, "-m", "vllm.entrypoints.cli.main", "serve", weights)


def _memory(spec: EngineSpec) -> tuple[str, ...]:
    found: tuple[str, ...] = ()
    if spec.kv_cache_bytes is not None:
        found += ("--kv-cache-memory-bytes", str(spec.kv_cache_bytes))
    if spec.memory_ratio is not None:
        # Beside a fixed cache it is what has to be free at the start: of the whole card, if not
        # said, so that a second engine on it would never start.
        found += ("--gpu-memory-utilization", f"{spec.memory_ratio:.4f}")
    if found:
        return found
    raise BadSpec(
        f"replica {spec.replica_id} has neither kv_cache_bytes nor memory_ratio: "
        "without one vLLM takes nearly all memory of the device"
    )


def _format(spec: EngineSpec) -> tuple[str, ...]:
    """By itself the engine takes pickles where it finds no safetensors, and they run code."""
    return () if "pickle" in spec.unsafe else ("--load-format", "safetensors")


def _plain(arguments: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in arguments.items() if name not in _OTHERWISE}


def _speculation(arguments: Mapping[str, Value]) -> tuple[str, ...]:
    if "speculative_method" not in arguments:
        return ()
    tokens = str(arguments.get("speculative_tokens", 1))
    return ("--spec-method", str(arguments["speculative_method"]), "--spec-tokens", tokens)


def _device_flags(spec: EngineSpec) -> tuple[str, ...]:
    if spec.device_kind == "cpu" and "enforce_eager" not in spec.arguments:
        # Compiling takes a minute on a CPU and wins little there.
        return ("--enforce-eager",)
    return ()


def _sleep(spec: EngineSpec) -> tuple[str, ...]:
    """Without the switch it answers that it sleeps, and gives nothing back."""
    if spec.sleep and spec.device_kind != "gpu":
        raise BadSpec("vLLM on a CPU answers that it sleeps and frees nothing: leave sleep off")
    return ("--enable-sleep-mode",) if spec.sleep else ()


def _environment(spec: EngineSpec, base_env: Mapping[str, str], fast: bool) -> dict[str, str]:
    gpu = spec.device_kind == "gpu"
    env = {name: value for name, value in base_env.items() if _passes(name, gpu=gpu)}
    env |= {
        "WEIR_REPLICA": str(spec.replica_id),
        # Not in argv, which every user of the host may read.
        "VLLM_API_KEY": spec.api_key,
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        # It never removes its sockets: they are to go with the folder in which it runs. A path
        # from the root might be longer than a socket's may be.
        "VLLM_RPC_BASE_PATH": ".",
        # A start is given up when it stalls, by whoever watches it, not because it takes long.
        "VLLM_ENGINE_READY_TIMEOUT_S": str(READY_WAIT_SECONDS),
        # An empty list hides every card from an engine for CPU.
        "CUDA_VISIBLE_DEVICES": ",".join(spec.device_uuids) if gpu else "",
    }
    if spec.sleep:
        # Pages that no key guards, one of which runs any method: with sleep alone.
        env["VLLM_SERVER_DEV_MODE"] = "1"
    if home := base_env.get("WEIR_HOME"):
        env["VLLM_CACHE_ROOT"] = str(Path(home) / "cache" / "vllm")
    if not gpu:
        env |= _cpu_environment(fast)
    return env


def _passes(name: str, *, gpu: bool) -> bool:
    if gpu and (name in _PASSED_TO_GPU_ENGINES or name.startswith(_PASSED_TO_GPU_PREFIXES)):
        return True
    return name in _PASSED


def _cpu_environment(fast: bool) -> dict[str, str]:
    """VLLM_CPU_KVCACHE_SPACE stays unset: it overrides the reserved bytes, and "" kills vLLM."""
    if fast:
        # The last one keeps the model in the engine core's process: no worker to start.
        return {
            "OMP_NUM_THREADS": "1",
            "VLLM_CPU_CI_ENV": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        }
    # One worker thread per core of the NUMA node, one core left for vLLM's scheduler.
    return {"VLLM_CPU_OMP_THREADS_BIND": "auto"}
