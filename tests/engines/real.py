"""The engine runtime that tests share, and the tiny model made with it."""

import fcntl
import os
import subprocess
from pathlib import Path

from engines import installs, runtime

ROOT = Path(__file__).parent.parent.parent
VERSION = "0.32.0"
MAKE_SECONDS = 600  # ten times what it takes on two busy cores
TINY_MODEL = Path(__file__).with_name("tiny_model.py")


def runtimes() -> Path:
    return Path(os.environ.get("WEIR_RUNTIMES") or ROOT / ".weir-test" / "runtimes").absolute()


def install_runtime() -> Path:
    """vLLM for CPU, installed if it is not there yet; a failure fails the test, it never skips."""
    asked = installs.poll(lambda: runtime.ensure("vllm", VERSION, "cpu", runtimes()))
    *_, last = asked
    assert last.state == "done", last.detail
    return Path(last.path)


def shared_tiny_model() -> Path:
    """Random, of two layers; made once for all flows, by whichever of them comes first."""
    engine = install_runtime()
    folder = runtimes().parent / "tiny-model"
    with (runtimes().parent / "tiny-model.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "model.safetensors").exists():
            make_tiny_model(folder, engine)
    return folder


def make_tiny_model(folder: Path, engine: Path) -> Path:
    argv = [str(engine / "bin" / "python"), "-P", str(TINY_MODEL), str(folder)]
    subprocess.run(argv, check=True, capture_output=True, timeout=MAKE_SECONDS)
    return folder
