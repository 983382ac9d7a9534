"""Whose a process is, told for all launches in one look."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engines import ours, processes, supervisor
from engines.spec import Command, EngineSpec
from tests.engines.test_supervisor import SPEC, eventually

UP = "print('up', flush=True); time.sleep(600)"
LEAVES = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                        stdin=subprocess.DEVNULL,
                        start_new_session=True)
print(f"pids {{os.getpid()}} {{child.pid}} {{left.pid}} end", flush=True)
{UP}
"""


def launched(home: Path, replica: int) -> supervisor.EngineRecord:
    folder = home / "engines" / f"replica-{replica}"
    environment = {"PATH": os.environ["PATH"], "WEIR_HOME": str(home), "WEIR_REPLICA": str(replica)}
    spec = EngineSpec(**{**vars(SPEC), "replica_id": replica})
    command = Command((sys.executable, "-c", LEAVES), environment)
    record = supervisor.launch(spec, command, folder, str(home))
    eventually(lambda: " end" in supervisor.log_text(folder))
    return record


@pytest.fixture
def home(tmp_path):
    yield tmp_path
    for folder in tmp_path.glob("engines/replica-*"):
        supervisor.stop(folder, 0)


def pids_of(record: supervisor.EngineRecord, home: Path) -> set[int]:
    text = supervisor.log_text(home / "engines" / f"replica-{record.replica_id}")
    return {int(word) for word in text.partition("pids ")[2].partition(" end")[0].split()}


def test_each_launch_has_its_session_and_those_that_left_it(home):
    one, two = (launched(home, SPEC.replica_id + n) for n in range(2))
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        found = ours.by_launch([one, two])
        assert found == {record.replica_id: pids_of(record, home) for record in (one, two)}
        asked = found[one.replica_id] | {stranger.pid, os.getpid(), 2**22 + 1}
        assert ours.among([one, two], asked) == found[one.replica_id]
        assert ours.among([two], asked) == set()
        members = {process.pid for process in supervisor.members(one)}
        assert members == found[one.replica_id]
    finally:
        stranger.kill()
        stranger.wait()


def test_without_launches_no_process_is_looked_at(monkeypatch):
    monkeypatch.setattr(processes, "PROC", Path("/nowhere"))
    assert ours.by_launch([]) == {}
    assert ours.among([], {1, 2}) == set()
