"""Which workers have outlived their parent, and when they may go."""

import os
import subprocess
import sys
import time

from control.gateway.process import succession
from control.metering.segments import claim

HERE = succession.parent_name()


def ended_parent() -> str:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return f"host-with-dash-{done.pid}"


def test_an_owners_name_says_whose_child_it_is():
    owner = succession.owner_name("a-host-123", 2, 99)
    assert owner == "a-host-123-2-99"
    assert succession.parent_of(owner) == "a-host-123"
    assert succession.has_parent(succession.owner_name(f"h-{os.getppid()}", 0, 1))
    assert not succession.has_parent(succession.owner_name(f"h-{os.getpid()}", 0, 1))


def test_orphans_live_and_their_parent_does_not(tmp_path):
    gone = ended_parent()
    locks = [
        claim(tmp_path / succession.owner_name(HERE, 0, 1)),
        claim(tmp_path / succession.owner_name(gone, 0, 1)),
        claim(tmp_path / "worker-1"),
    ]
    (tmp_path / succession.owner_name(gone, 1, 1)).mkdir()  # dead, and not shipped yet
    [orphan] = succession.orphans(tmp_path)
    assert orphan.name == succession.owner_name(gone, 0, 1)
    assert succession.wait_for([orphan], until=0) == [orphan]
    for lock in locks:
        os.close(lock)
    assert succession.wait_for([orphan], until=time.monotonic() + 60) == []


def test_orphans_outlive_their_parent_until_another_ones_workers_serve(tmp_path):
    assert not succession.is_outlived(tmp_path)
    lock = claim(tmp_path / succession.owner_name(ended_parent(), 0, 1))
    assert succession.is_outlived(tmp_path)  # it died before all of them served
    succession.announce(tmp_path, ended_parent())
    assert succession.is_outlived(tmp_path)
    succession.announce(tmp_path, HERE)
    assert not succession.is_outlived(tmp_path)
    os.close(lock)


def test_a_worker_is_succeeded_when_another_parent_says_so(tmp_path):
    owner = succession.owner_name("h-1", 0, 1)
    assert not succession.is_succeeded(tmp_path / "spool", owner)
    succession.announce(tmp_path / "spool", "h-1")
    assert not succession.is_succeeded(tmp_path / "spool", owner)
    succession.announce(tmp_path / "spool", ended_parent())  # that of the one before
    assert not succession.is_succeeded(tmp_path / "spool", owner)
    succession.announce(tmp_path / "spool", HERE)
    assert succession.is_succeeded(tmp_path / "spool", owner)
    assert succession.orphans(tmp_path / "spool") == []
