"""Commands at a shell while nothing runs: one clear line, nothing on stdout, no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.weir import HANG_SECONDS, clean_environment
from tests.servers import ROOT

COMMANDS = (
    "status",
    "status --json",
    "key list",
    "export usage --month 2026-11",
    "apply -f examples/external.yaml",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_that_nothing_runs(command: str, tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "manage.py", *command.split()],
        cwd=ROOT,
        env=clean_environment(WEIR_HOME=str(tmp_path / "home")),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"CommandError: Weir does not run in {tmp_path}/home: start it with `weir up`, "
        "or choose another WEIR_HOME\n"
    )


def test_a_runtime_that_weir_does_not_install_is_named(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "manage.py", "runtime", "install", "tgi", "1.0", "--here"],
        cwd=ROOT,
        env=clean_environment(WEIR_HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert "the kinds are vllm and stub" in done.stderr
