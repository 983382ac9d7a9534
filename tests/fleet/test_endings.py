"""Who ended an engine that cannot say so itself."""

import pytest

from control.fleet.endings import HOST_MEMORY, with_kills
from engines import host
from engines.spec import Cause

OWN = Cause("weights_corrupt", "SafetensorError", retry=False)
SILENT = Cause("killed", "ended by signal 9", retry=True)


@pytest.mark.parametrize(
    ("said", "before", "now", "code"),
    [
        (SILENT, 3, 4, HOST_MEMORY),
        (SILENT, 3, 3, "killed"),
        (SILENT, None, 4, "killed"),  # who did not see it before cannot tell
        (SILENT, 3, None, "killed"),
        (Cause("worker_died", "Worker proc died", retry=True), 0, 2, HOST_MEMORY),
        (OWN, 3, 4, "weights_corrupt"),
    ],
)
def test_a_silent_end_beside_kills_for_memory_is_the_hosts(said, before, now, code):
    assert with_kills(said, before, now).code == code


def test_its_own_words_stay_beside_what_the_kernel_did():
    assert "ended by signal 9" in with_kills(SILENT, 0, 1).detail


@pytest.mark.parametrize(
    ("file", "text", "kills"),
    [
        ("memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\noom_group_kill 0\n", 2),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", 5),
        ("memory.events", "low 0\n", None),
    ],
)
def test_kills_are_counted_in_both_versions_of_control_groups(tmp_path, file, text, kills):
    path = tmp_path / "sys/fs/cgroup" / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert host.oom_kills(tmp_path) == kills


def test_a_host_without_control_groups_counts_none(tmp_path):
    assert host.oom_kills(tmp_path) is None
