"""The engine runtime that tests share, and the tiny model made with it."""

import fcntl
import os
import subprocess
from pathlib import Path

from engines import installs, runtime
from tests.servers import SHARED

RUNTIMES = SHARED / "runtimes"
# For an instance that starts such engines, and for no other: one that is shut down ends what is
# being installed or fetched in its folders.
LENT = {"WEIR_RUNTIMES": str(RUNTIMES), "WEIR_WEIGHTS": str(SHARED / "weights")}
VERSION = "0.32.0"
DEVICE = os.environ.get("WEIR_TEST_DEVICE", "cpu")  # `make test-gpu` says gpu
MAKE_SECONDS = 600  # ten times what it takes on two busy cores
TINY_MODEL = Path(__file__).with_name("tiny_model.py")


def install_runtime() -> Path:
    """vLLM, installed if it is not there yet; a failure fails the test, it never skips."""
    asked = installs.poll(lambda: runtime.ensure("vllm", VERSION, DEVICE, RUNTIMES))
    *_, last = asked
    assert last.state == "done", last.detail
    return Path(last.path)


def shared_tiny_model() -> Path:
    """Random, of two layers; made once for all flows, by whichever of them comes first."""
    engine = install_runtime()
    folder = SHARED / "tiny-model"
    with (SHARED / "tiny-model.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "model.safetensors").exists():
            make_tiny_model(folder, engine)
    return folder


def make_tiny_model(folder: Path, engine: Path) -> Path:
    argv = [str(engine / "bin" / "python"), "-P", str(TINY_MODEL), str(folder)]
    subprocess.run(argv, check=True, capture_output=True, timeout=MAKE_SECONDS)
    return folder
