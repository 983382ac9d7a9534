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
        ("status", "WEIR_GATEWAY_LIMITS", "{x", "WEIR_GATEWAY_LIMITS is '{x': no JSON object"),
        ("gateway", "WEIR_GATEWAY_LIMITS", '{"x": 1}', "WEIR_GATEWAY_LIMITS names 'x'"),
        ("gateway", "WEIR_GATEWAY_LIMITS", '{"tries": "2"}', "tries is '2': a number is wanted"),
    ],
)
def test_a_setting_that_cannot_be_is_named(command, name, value, said):
    environment = {**os.environ, name: value}
    argv = [sys.executable, str(ROOT / "manage.py"), command]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
