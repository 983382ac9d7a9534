"""Phases and causes are read from vLLM's own words."""

from pathlib import Path

import pytest

from engines.spec import Phase
from engines.vllm.causes import (
    DETAIL_CHARACTERS_MAX,
    context_that_fits,
    read_cause,
    read_phase,
)

LOG = (Path(__file__).parent / "data" / "vllm-0.32-start.log").read_text()
LAST_LINE = "RuntimeError: Engine core initialization failed. See root cause above."


def log_until(signature: str) -> str:
    return LOG[: LOG.index(signature) + len(signature)]


@pytest.mark.parametrize(
    ("log", "phase"),
    [
        ("", Phase("starting", 5, "imports its libraries")),
        (log_until("version 0.32.0"), Phase("starting", 25, "reads its settings")),
        (
            log_until("LlamaForCausalLM"),
            Phase("starting", 30, "architecture LlamaForCausalLM"),
        ),
        (log_until("a V1 LLM engine"), Phase("starting", 40, "starts the engine core")),
        (log_until("rank=0"), Phase("starting", 55, "starts 1 worker(s)")),
        (log_until("to load model"), Phase("loading", 60, "loads the weights")),
        (log_until("100% Completed | 1/1"), Phase("loading", 80, "loads the weights, shard 1/1")),
        (log_until("0.01 seconds"), Phase("loading", 80, "weights in 0.01 s")),
        (log_until("65,536 tokens"), Phase("warming", 90, "KV cache of 65,536 tokens")),
        (log_until("took 0.31 s"), Phase("warming", 92, "engine core up in 0.31 s")),
        (log_until("Starting vLLM server on"), Phase("warming", 97, "opens its port")),
        (LOG, Phase("ready", 100, "serves")),
    ],
)
def test_the_furthest_signature_is_the_phase(log, phase):
    assert read_phase(log).percent == phase.percent
    assert read_phase(log).name == phase.name


def test_shards_move_the_bar_though_they_are_written_over_one_another():
    line = "Loading safetensors checkpoint shards:  {}% Completed | {}/4 [00:01<00:00]\r"
    log = log_until("to load model") + line.format(25, 1) + line.format(50, 2)
    assert read_phase(log) == Phase("loading", 70, "loads the weights, shard 2/4")


def test_a_tail_that_begins_late_still_tells_the_phase():
    assert read_phase(LOG[LOG.index("init engine") :]).name == "ready"


@pytest.mark.parametrize(
    ("log", "exit_code", "code", "retry"),
    [
        ("vllm: error: unrecognized arguments: --x", 2, "bad_arguments", False),
        ("OSError: [Errno 98] Address already in use", 1, "port_taken", True),
        ("HFValidationError: Repo id must be in the form…'/x'", 1, "weights_missing", False),
        ("Invalid repository ID or local directory specified: '/x'", 1, "weights_missing", False),
        (
            "The checkpoint you are trying to load has model type `foo` but",
            1,
            "model_unsupported",
            False,
        ),
        (
            "safetensors_rust.SafetensorError: Error while deserializing header",
            1,
            "weights_corrupt",
            False,
        ),
        ("Unknown quantization method: gguf.", 1, "quantization_unsupported", False),
        ("_C::static_scaled_fp8_quant() expected at most 0", 1, "hardware_unsupported", False),
        (
            "User-specified max_model_len (4096) is greater than the derived max_model_len",
            1,
            "context_too_long",
            False,
        ),
        (
            "ValueError: To serve at least one request with the model's max seq len (512), "
            "… the estimated maximum model length is 384.",
            1,
            "kv_cache_too_small",
            False,
        ),
        (
            "Free memory on device cuda:0 (1/80 GiB) on startup is less than desired GPU",
            1,
            "device_occupied",
            True,
        ),
        ("torch.OutOfMemoryError: CUDA out of memory.", 1, "memory_short_at_start", False),
        (
            f"{LOG}\ntorch.OutOfMemoryError: CUDA out of memory.",
            0,
            "memory_short_while_serving",
            True,
        ),
        (
            "Worker proc VllmWorker-0 died unexpectedly (exit code: -9)",
            0,
            "worker_died",
            True,
        ),
        (
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
            1,
            "cache_blocks_short",
            False,
        ),
        (
            "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization",
            1,
            "weights_too_large",
            False,
        ),
        (
            log_until("to load model") + "\nDefaultCPUAllocator: can't allocate memory: you tried",
            1,
            "weights_too_large",
            False,
        ),
        (
            log_until("0.01 seconds") + "\ntorch.OutOfMemoryError: CUDA out of memory.",
            1,
            "memory_short_at_start",
            False,
        ),
        (
            "CUDA out of memory occurred when warming up sampler with 1024 dummy requests",
            1,
            "memory_short_at_start",
            False,
        ),
        ("Cannot find the config file for awq", 1, "quantization_unsupported", False),
        (
            "Available memory on node 0 (16.73/23.54 GiB) on startup is less than requested memory"
            " for kv (100.0 GiB)",
            1,
            "device_occupied",
            True,
        ),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", 0, "gpu_lost", True),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", 0, "gpu_lost", True),
        ("OSError: [Errno 28] No space left on device", 1, "disk_full", False),
        ("KeyError: 'x'", 1, "crashed", True),
        (LOG, -9, "killed", True),
        (LOG, None, "exited", True),
        ("", None, "exited", True),
    ],
)
def test_the_root_cause_is_named_before_the_last_line(log, exit_code, code, retry):
    cause = read_cause(
        f"{log}\n{LAST_LINE}" if code not in ("killed", "exited") else log, exit_code
    )
    assert (cause.code, cause.retry) == (code, retry)


def test_the_first_error_counts_not_those_that_follow_from_it():
    log = (
        "(Worker pid=9) ERROR 11-29 17:41:31 [w.py:1] torch.OutOfMemoryError: CUDA out of memory.\n"
        "(EngineCore pid=8) ERROR 11-29 17:41:32 [c.py:2] OSError: [Errno 98] Address already in"
        f" use\n{LAST_LINE}"
    )
    assert read_cause(log, 1).code == "memory_short_at_start"


@pytest.mark.parametrize(
    ("detail", "tokens"),
    [
        ("(0.01 GiB). … the estimated maximum model length is 384. Try increasing", 384),
        ("the estimated maximum model length is 12,288.", 12288),
        ("To serve at least one request with the model's max seq len (512)", None),
    ],
)
def test_the_context_that_would_fit_is_read_from_its_words(detail, tokens):
    assert context_that_fits(detail) == tokens


def test_the_detail_is_the_engines_own_words_without_its_prefix_and_within_a_limit():
    line = "(Worker pid=7) ERROR 11-29 17:41:31 [worker.py:12] ValueError: bad " + "x" * 5000
    cause = read_cause(line, 1)
    assert cause.detail.startswith("ValueError: bad x")
    assert len(cause.detail) == DETAIL_CHARACTERS_MAX


def test_advice_that_names_an_error_is_no_cause():
    advice = (
        "(APIServer pid=7) WARNING 11-30 17:52:57 [system_utils.py:255] Found ulimit of 20000. This"
        " can cause errors like `OSError: [Errno 24] Too many open files`. Consider ulimit -n\n"
    )
    assert read_cause(advice + LOG, -9).code == "killed"
    broken = read_cause(advice + "(EngineCore pid=8) ERROR 11-30 x [a.py:1] ValueError: odd", 1)
    assert (broken.code, broken.detail) == ("crashed", "ValueError: odd")
