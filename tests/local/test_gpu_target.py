"""`make test-gpu` is for hosts with a card; on any other it says that it did not run."""

import os
import subprocess
import sys

from tests.servers import ROOT

HANG_GUARD_SECONDS = 120


def test_without_a_card_it_says_that_it_did_not_run(tmp_path):
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")  # whatever this host has
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu"],
        cwd=ROOT,
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=HANG_GUARD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("make test-gpu did not run: ")
