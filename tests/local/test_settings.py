"""A setting that cannot be is named in one line, by whatever command meets it."""

import os
import subprocess
import sys

import pytest

from tests.servers import ROOT


@pytest.mark.parametrize(
    ("command", "name", "value", "said"),
    [
        ("status", "WEIR_GATEWAY_PORT", "abc", "WEIR_GATEWAY_PORT is 'abc': a number is wanted"),
        ("status", "WEIR_GATEWAY_PORT", "0", "'0': a number from 1 to 65535 is wanted"),
        ("up", "WEIR_CONSOLE_PORT", "99999", "'99999': a number from 1 to 65535 is wanted"),
        ("up", "WEIR_GATEWAY_PROCESSES", "0", "'0': a number from 1 to 256 is wanted"),
        ("status", "WEIR_LOG_LEVEL", "loud", "WEIR_LOG_LEVEL is 'loud': use one of ('INFO', "),
        ("status", "WEIR_HOME", "/dev/null", "cannot use /dev/null: "),
        ("up", "WEIR_HOME", "/proc/weir", "cannot use /proc/weir: "),
        ("up", "WEIR_HOME", "/tmp/" + "x/" * 100, "longer than 200 characters: choose a shorter"),
        ("up", "WEIR_DATABASE_URL", "postgresql://u@h:x/weir", "WEIR_DATABASE_URL: Port could"),
        ("status", "WEIR_GATEWAY_LIMITS", "{x", "WEIR_GATEWAY_LIMITS is '{x': no JSON object"),
        ("gateway", "WEIR_GATEWAY_LIMITS", '{"x": 1}', "WEIR_GATEWAY_LIMITS names 'x'"),
        ("gateway", "WEIR_GATEWAY_LIMITS", '{"tries": "2"}', "tries is '2': a number is wanted"),
    ],
)
def test_a_setting_that_cannot_be_is_named(command, name, value, said):
    environment = {**os.environ, name: value}
    environment.pop("WEIR_SECRET", None)
    argv = [sys.executable, str(ROOT / "manage.py"), command]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_relative_home_is_the_same_for_what_runs_in_another_folder(tmp_path):
    """Children of `weir up` run in the program's own folder."""
    code = (
        "import subprocess, sys; from console import settings; print(settings.WEIR_HOME);"
        "child = 'from console import settings; print(settings.WEIR_HOME)';"
        "subprocess.run([sys.executable, '-c', child], cwd=settings.BASE_DIR, check=True)"
    )
    environment = {**os.environ, "WEIR_HOME": "home", "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-u", "-c", code]
    said = subprocess.check_output(argv, env=environment, cwd=tmp_path, text=True, timeout=60)
    assert said.split() == [str(tmp_path / "home")] * 2
