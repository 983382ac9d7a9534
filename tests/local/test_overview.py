"""`weir` alone names the commands of the platform, and what each is for."""

import sys

import pytest

import manage
from control.management import overview


def test_each_command_has_its_line_and_those_of_others_have_none():
    lines = overview.text().splitlines()
    told = dict(line.split(maxsplit=1) for line in lines if line.startswith("  "))
    assert {"up", "down", "status", "apply", "key", "migrate", "node", "web"} <= set(told)
    assert told["down"] == "Stop Weir on this machine, engines too."
    assert not {"runserver", "flush", "gateway_worker", "welcome"} & set(told)
    assert all(len(line) <= 110 for line in lines)


@pytest.mark.parametrize("asked", [[], ["help"], ["-h"], ["--help"]])
def test_however_it_is_asked_for(monkeypatch, capsys, asked):
    monkeypatch.setattr(sys, "argv", ["weir", *asked])
    manage.main()
    assert capsys.readouterr().out == overview.text()
