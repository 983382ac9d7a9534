"""Long work is begun once, found again, told once when it failed, and never half taken."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engines import installs, processes
from engines.installs import Job
from engines.spec import Install
from tests.threads import HANG_SECONDS

# A worker as engines.runtime is one: it makes its folder, marks it, and does as the test says.
WORKER = """
import sys, time
from pathlib import Path
from engines import installs
from tests.engines.test_installs import finished
job = installs.Job(Path(sys.argv[1]), sys.argv[2])
def make(progress):
    job.target.mkdir(exist_ok=True)
    with (job.root / "begun").open("a") as file: file.write("x")
    progress.say(40, "half way")
    exec(sys.argv[3])
    (job.target / "complete").write_text("all of it")
sys.exit(installs.work(job, finished, make))
"""


@pytest.fixture
def job(tmp_path) -> Iterator[Job]:
    yield Job(tmp_path, "thing-1.0")
    installs.stop_all(tmp_path)


def finished(folder: Path) -> str | None:
    path = folder / "complete"
    return path.read_text() if path.exists() else None


def ensure(job: Job, what: str) -> Install:
    return installs.ensure(job, finished, ["-c", WORKER, str(job.root), job.name, what])


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def told(job: Job) -> dict:
    return json.loads(job.progress.read_text()) if job.progress.exists() else {}


def working(job: Job) -> dict:
    eventually(lambda: told(job).get("percent") == 40)
    return told(job)


def test_work_is_polled_until_it_is_done(job):
    *_, last = installs.poll(lambda: ensure(job, ""), every_seconds=0.02)
    assert last == Install("done", 100, "all of it", str(job.target))
    assert not job.progress.exists()


def test_whoever_asks_while_it_runs_sees_how_far_it_is_and_starts_nothing(job):
    assert ensure(job, "time.sleep(600)").state == "running"
    working(job)
    assert ensure(job, "time.sleep(600)") == Install("running", 40, "half way")
    assert (job.root / "begun").read_text() == "x"


def test_it_goes_on_without_who_asked_for_it(job):
    ensure(job, "time.sleep(600)")
    process = processes.read(working(job)["pid"])
    assert process.session == process.pid


def test_a_failure_is_told_once_and_the_next_try_begins_anew(job):
    failing = "raise installs.InstallFailed('no network: connect this host')"
    *_, last = installs.poll(lambda: ensure(job, failing), every_seconds=0.02)
    assert last == Install("failed", 40, "no network: connect this host")
    *_, last = installs.poll(lambda: ensure(job, ""), every_seconds=0.02)
    assert last.state == "done"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("raise OSError(28, 'No space left on device')", "is full: free some space"),
        ("raise PermissionError(13, 'Permission denied', '/x')", "Permission denied: /x"),
        ("1 / 0", "broke off; its log is"),
    ],
)
def test_what_went_wrong_is_said(job, broken, said):
    *_, last = installs.poll(lambda: ensure(job, broken), every_seconds=0.02)
    assert last.state == "failed"
    assert said in last.detail


def test_a_killed_worker_is_followed_by_another_and_its_children_end(job):
    child = "import subprocess; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    ensure(job, child)
    first = working(job)
    session = lambda: processes.session(first["pid"], first["start_ticks"], first["boot_id"])  # noqa: E731
    eventually(lambda: len(session()) == 2)
    os.kill(first["pid"], signal.SIGKILL)
    eventually(lambda: processes.read(first["pid"]) is None)
    *_, last = installs.poll(lambda: ensure(job, ""), every_seconds=0.02)
    assert last.state == "done"
    assert session() == []


def test_a_worker_outlives_the_kill_of_its_starter(job):
    code = (
        "import os\nfrom pathlib import Path\n"
        "from tests.engines.test_installs import Job, ensure, working\n"
        f"job = Job(Path({str(job.root)!r}), {job.name!r})\n"
        "ensure(job, 'time.sleep(600)'); working(job); os.kill(os.getpid(), 9)"
    )
    argv = [sys.executable, "-c", code]
    killed = subprocess.run(argv, check=False, timeout=2 * HANG_SECONDS)
    assert killed.returncode == -9
    assert ensure(job, "").state == "running"


def test_a_shutdown_ends_what_is_at_work(job):
    ensure(job, "time.sleep(600)")
    pid = working(job)["pid"]
    assert installs.stop_all(job.root) == [pid]
    assert processes.read(pid) is None
    assert installs.stop_all(job.root) == []


def test_a_half_made_folder_is_not_taken_for_a_whole_one(job):
    job.target.mkdir()
    assert ensure(job, "time.sleep(600)").state == "running"


def test_a_worker_that_cannot_start_is_a_failure_with_its_log(job):
    found = installs.ensure(job, finished, ["-c", "raise SystemExit('no such module')"])
    assert found.state == "failed"
    assert str(job.log) in found.detail
    assert "no such module" in job.log.read_text()
