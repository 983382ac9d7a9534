"""What `deploy/` gives operators agrees with the platform."""

import configparser
import re
import subprocess

import pytest
from django.conf import settings

from tests.servers import ROOT

DEPLOY = ROOT / "deploy"
UNITS = sorted(
    path for path in (DEPLOY / "systemd").rglob("*") if path.suffix in (".service", ".conf")
)


def test_the_firewall_guards_the_ports_that_engines_have():
    text = (DEPLOY / "firewall" / "engines.nft").read_text()
    first, last = map(int, re.search(r"engine_ports = (\d+)-(\d+)", text).groups())
    assert range(first, last + 1) == settings.WEIR_ENGINE_PORTS
    rules = [line.strip() for line in text.splitlines() if line.startswith("        ")]
    assert rules[-1] == "counter drop"
    assert "ip saddr $gateways accept" in rules


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_are_well_formed(path):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(path)
    assert "Service" in unit


def test_engines_outlive_their_agent_and_each_others_end():
    template = (DEPLOY / "systemd" / "weir@.service").read_text()
    node = (DEPLOY / "systemd" / "weir@node.service.d" / "node.conf").read_text()
    assert "KillMode=process" in template
    assert "OOMPolicy=continue" in node


def test_only_known_processes_are_started():
    done = subprocess.run(
        [DEPLOY / "systemd" / "run", "nothing"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 64
    assert "web, gateway, control, scheduler or node" in done.stderr
