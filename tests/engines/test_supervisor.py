"""An engine outlives who launched it, is found again, and stops whole (case E01)."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from engines import orphans, processes, supervisor
from engines.spec import Command, EngineSpec
from tests.threads import HANG_SECONDS, Threads

SPEC = EngineSpec(
    replica_id=4_000_000_001,  # no instance of Weir on this host has a replica of this number
    generation=1,
    kind="stub",
    version="1",
    served_name="m",
    weights="",
    host="127.0.0.1",
    port=1,
    api_key="",
    device_kind="cpu",
)
SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER


@pytest.fixture
def home(tmp_path) -> Iterator[Path]:
    yield tmp_path
    orphans.end(str(tmp_path), orphans.find(str(tmp_path), set()), grace_seconds=0)


@pytest.fixture
def folder(home) -> Path:
    return home / "engines" / f"replica-{SPEC.replica_id}"


def python(script: str, **env: str) -> Command:
    return Command((sys.executable, "-c", script), {"PATH": os.environ["PATH"], **env})


def launched(folder: Path, script: str, spec: EngineSpec = SPEC) -> supervisor.EngineRecord:
    record = supervisor.launch(spec, python(script), folder, str(folder.parent.parent))
    eventually(lambda: "up" in supervisor.log_text(folder))
    return record


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def parent_of(child: str) -> str:
    """An engine that starts a child in a session of its own, as a runaway worker would."""
    return (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
        "time.sleep(600)"
    )


def test_the_record_names_the_process_that_runs(folder, home):
    record = launched(folder, SLEEPER)
    running = processes.read(record.pid)
    assert (running.session, running.group) == (record.pid, record.pid)
    assert running.start_ticks == record.start_ticks
    assert json.loads((folder / "engine.json").read_text())["home"] == str(home)
    assert supervisor.alive(record)
    assert supervisor.adopt(folder) == record


def test_a_second_launch_of_the_same_generation_finds_the_first(folder):
    record = launched(folder, SLEEPER)
    assert launched(folder, SLEEPER) == record


def test_c01_the_same_order_twice_at_once_starts_one_engine(folder):
    with Threads(4) as pool:
        records = pool.map(lambda _: launched(folder, SLEEPER), range(4))
    assert len(set(records)) == 1
    assert len(supervisor.members(records[0])) == 1


def test_a_generation_that_died_is_not_started_again(folder):
    record = launched(folder, "print('up')")
    eventually(lambda: not supervisor.alive(record))
    assert launched(folder, SLEEPER) == record
    assert supervisor.adopt(folder) is None


def test_a_later_generation_replaces_the_earlier_one(folder):
    first = launched(folder, SLEEPER)
    second = launched(folder, SLEEPER, replace(SPEC, generation=2))
    assert not supervisor.alive(first)
    assert supervisor.alive(second)


def test_c01_an_order_of_an_earlier_generation_is_refused(folder):
    launched(folder, SLEEPER, replace(SPEC, generation=2))
    with pytest.raises(supervisor.Superseded, match="generation 2"):
        launched(folder, SLEEPER)


def test_an_engine_outlives_the_kill_of_its_launcher_and_is_adopted(folder, home):
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from tests.engines.test_supervisor import SLEEPER, launched\n"
        f"launched(Path({str(folder)!r}), SLEEPER)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    argv = [sys.executable, "-c", code]
    killed = subprocess.run(argv, check=False, timeout=2 * HANG_SECONDS)
    assert killed.returncode == -signal.SIGKILL
    record = supervisor.adopt(folder)
    assert record is not None
    assert supervisor.stop(folder, 10).gone


def test_an_engine_gets_its_signals_back_though_its_launcher_ignores_them(folder):
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        record = launched(folder, SLEEPER)
    finally:
        signal.signal(signal.SIGINT, old)
    status = Path(f"/proc/{record.pid}/status").read_text()
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn"))
    assert not int(ignored.split()[1], 16) & (1 << (signal.SIGINT - 1))


def test_a_pid_that_another_process_has_now_is_not_the_engine(folder):
    record = launched(folder, SLEEPER)
    assert not supervisor.alive(replace(record, start_ticks=record.start_ticks - 1))
    assert not supervisor.alive(replace(record, boot_id="another boot"))
    assert supervisor.members(replace(record, boot_id="another boot")) == []


def test_stop_asks_first_and_how_an_engine_of_ours_ended_is_known(folder):
    record = launched(
        folder, f"import signal; signal.signal(signal.SIGTERM, lambda *_: exit(3)); {SLEEPER}"
    )
    assert supervisor.exit_code(record) is None
    os.kill(record.pid, signal.SIGTERM)
    eventually(lambda: supervisor.exit_code(record) is not None)
    assert supervisor.exit_code(record) == 3
    assert supervisor.stop(folder, 10) == supervisor.Stopped(gone=True)


def test_e01_what_ignores_the_request_is_killed(folder):
    record = launched(folder, DEAF)
    assert supervisor.stop(folder, 0.2) == supervisor.Stopped(gone=True)
    assert not supervisor.alive(record)


@pytest.mark.parametrize("child", [SLEEPER, DEAF], ids=["child asks", "child ignores TERM"])
def test_e01_a_child_that_left_the_session_is_found_after_its_parent_was_killed(folder, child):
    record = launched(folder, parent_of(child))
    os.kill(record.pid, signal.SIGKILL)
    eventually(lambda: not supervisor.alive(record))
    assert supervisor.adopt(folder) is None
    [left] = supervisor.members(record)
    assert left.session != record.pid
    assert supervisor.stop(folder, 0.2).gone
    assert processes.read(left.pid) is None


def test_e01_no_new_launch_before_the_old_child_is_gone(folder):
    first = launched(folder, parent_of(DEAF))
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: not supervisor.alive(first))
    [left] = supervisor.members(first)
    launched(folder, SLEEPER, replace(SPEC, generation=2))
    assert processes.read(left.pid) is None


def test_e01_a_child_without_marks_is_found_by_its_session(folder):
    child = "import subprocess, sys, time; subprocess.Popen(['sleep', '600'], env={}); " + SLEEPER
    record = launched(folder, child)
    os.kill(record.pid, signal.SIGKILL)
    eventually(lambda: not supervisor.alive(record))
    assert len(supervisor.members(record)) == 1
    assert supervisor.stop(folder, 10).gone


def test_e01_orphans_are_found_by_home_after_everything_was_forgotten(folder, home):
    record = launched(folder, parent_of(SLEEPER))
    assert orphans.find(str(home), known=set()) == {SPEC.replica_id}
    assert len(supervisor.members(record)) == 2
    assert orphans.find(str(home), known={SPEC.replica_id}) == set()
    assert orphans.find(str(home) + "-of-another", known=set()) == set()
    assert orphans.end(str(home), {SPEC.replica_id}, grace_seconds=10).gone
    assert orphans.find(str(home), known=set()) == set()


def test_shared_memory_that_a_killed_engine_left_is_freed_and_used_segments_stay(folder):
    script = (
        "from multiprocessing import shared_memory, resource_tracker\n"
        "left = shared_memory.SharedMemory(create=True, size=4096)\n"
        "resource_tracker.unregister(left._name, 'shared_memory')\n"
        "print(left.name, flush=True)\n"
    )
    record = launched(folder, script + SLEEPER)
    name = supervisor.log_tail(folder)[0]
    used = shared_memory.SharedMemory(create=True, size=4096)
    coming = Path("/dev/shm", f"sem.mp-{used.name}")  # another engine that starts will open it
    coming.touch()
    try:
        os.kill(record.pid, signal.SIGKILL)
        assert supervisor.stop(folder, 10).gone
        assert not Path("/dev/shm", name).exists()
        assert Path("/dev/shm", used.name).exists()
        assert coming.exists()
    finally:
        coming.unlink(missing_ok=True)
        used.close()
        used.unlink()


def test_an_engine_runs_in_its_folder_which_takes_along_what_it_leaves(folder):
    record = launched(folder, "open('left', 'w').close(); " + SLEEPER)
    assert Path(f"/proc/{record.pid}/cwd").resolve() == folder.resolve()
    assert (folder / "left").exists()


def test_a_command_that_cannot_be_executed_says_so_in_the_log(folder, home):
    record = supervisor.launch(SPEC, Command(("/nowhere/python",), {}), folder, str(home))
    eventually(lambda: not supervisor.alive(record))
    assert supervisor.log_tail(folder) == [
        "cannot execute /nowhere/python: No such file or directory"
    ]


def test_stopping_what_was_never_launched_is_done_already(folder):
    assert supervisor.stop(folder, 10) == supervisor.Stopped(gone=True)


def test_a_damaged_record_is_no_record(folder):
    folder.mkdir(parents=True)
    (folder / "engine.json").write_text('{"pid": 1')
    assert supervisor.adopt(folder) is None


def test_the_log_tail_shows_the_last_state_of_a_progress_bar(folder):
    folder.mkdir(parents=True)
    (folder / "engine.log").write_text("a\n\rload 10%\rload 90%\nb\n")
    assert supervisor.log_tail(folder, 2) == ["load 90%", "b"]


def test_a_long_log_is_trimmed_while_the_engine_goes_on_writing(folder):
    script = "import time\nprint('x' * 5000, flush=True)\nprint('up', flush=True)\n"
    record = launched(folder, script + "while True: time.sleep(.01); print('on', flush=True)")
    assert supervisor.trim_log(folder, bytes_max=4000)
    eventually(lambda: "on" in supervisor.log_text(folder))
    assert (folder / "engine.log").stat().st_size < 4000
    assert (folder / "engine.log.1").stat().st_size <= 500
    assert supervisor.alive(record)


def test_a_running_engines_folder_is_not_forgotten(folder):
    launched(folder, SLEEPER)
    with pytest.raises(supervisor.StillRuns):
        supervisor.forget(folder)
    supervisor.stop(folder, 10)
    supervisor.forget(folder)
    assert not folder.exists()
