"""The engine runtime that tests share, and the tiny model made with it."""

import os
import subprocess
from pathlib import Path

from engines import installs, runtime

ROOT = Path(__file__).parent.parent.parent
VERSION = "0.32.0"
TINY_MODEL = Path(__file__).with_name("tiny_model.py")


def runtimes() -> Path:
    return Path(os.environ.get("WEIR_RUNTIMES") or ROOT / ".weir-test" / "runtimes").absolute()


def install_runtime() -> Path:
    """vLLM for CPU, installed if it is not there yet; a failure fails the test, it never skips."""
    asked = installs.poll(lambda: runtime.ensure("vllm", VERSION, "cpu", runtimes()))
    *_, last = asked
    assert last.state == "done", last.detail
    return Path(last.path)


def make_tiny_model(folder: Path, engine: Path) -> Path:
    argv = [str(engine / "bin" / "python"), "-P", str(TINY_MODEL), str(folder)]
    subprocess.run(argv, check=True, capture_output=True)
    return folder
