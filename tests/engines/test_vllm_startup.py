"""What vLLM's log says of its start: memory in its own words, and seconds."""

from pathlib import Path

import pytest

from engines.spec import Startup
from engines.vllm.startup import read_startup

LOG = (Path(__file__).parent / "data" / "vllm-0.32-start.log").read_text()
GIB = 2**30
# Texts of vLLM 0.32's gpu_worker.py and gpu_model_runner.py, for a card that nobody lent.
GPU = """
(EngineCore pid=1) INFO Model loading took 14.25 GiB memory and 3.123456 seconds
(EngineCore pid=1) INFO Available KV cache memory: 50.5 GiB
(EngineCore pid=1) INFO GPU KV cache size: 945,000 tokens, Maximum concurrency for 32,768 tokens
(EngineCore pid=1) INFO Graph capturing finished in 8 secs, took 0.60 GiB
(EngineCore pid=1) INFO Free memory on device (78.5/79.25 GiB) on startup. Desired GPU memory \
utilization is (0.92, 72.91 GiB). Actual usage is 15.0 GiB for consumed memory (weights + \
non-torch), 1.5 GiB for peak activation, and 0.5 GiB for CUDAGraph memory. Replace
(EngineCore pid=1) INFO init engine (profile, create kv cache, warmup model) took 31.50 s \
(compilation: 12.00 s)
"""
TWO_WORKERS = "Model loading took 7.0 GiB memory and 1 s\nModel loading took 7.5 GiB memory and 1 s"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("", Startup()),
        (LOG, Startup(kv_tokens=65_536, capture_seconds=0.31)),
        (
            GPU,
            Startup(
                weights_bytes=int(14.25 * GIB),
                consumed_bytes=15 * GIB,
                activation_bytes=int(1.5 * GIB),
                graph_bytes=GIB // 2,
                kv_bytes=int(50.5 * GIB),
                kv_tokens=945_000,
                capture_seconds=31.5,
            ),
        ),
        (TWO_WORKERS, Startup(weights_bytes=int(7.5 * GIB))),
        ("Graph capturing finished in 8 secs, took 0.25 GiB", Startup(graph_bytes=GIB // 4)),
    ],
)
def test_memory_and_seconds_of_a_start(log, expected):
    assert read_startup(log) == expected
