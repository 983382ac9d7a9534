"""Long work in a process of its own, which a later caller, or another process, polls by a file."""

import fcntl
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines import processes, shim
from engines.spec import Install

START_WAIT_SECONDS = 60.0
STOP_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.02


class InstallFailed(Exception):
    """Which step could not be done, why, and what to do about it."""


@dataclass(frozen=True)
class Job:
    """One thing to be made below `root`; `name` is its folder, complete or not there."""

    root: Path
    name: str

    @property
    def target(self) -> Path:
        return self.root / self.name

    @property
    def partial(self) -> Path:
        return self.root / f"{self.name}.partial"

    @property
    def log(self) -> Path:
        return self.root / f"{self.name}.log"

    @property
    def progress(self) -> Path:
        return self.root / f"{self.name}.progress.json"


def ensure(job: Job, finished: Callable[[Path], str | None], argv: list[str]) -> Install:
    """Begin the work unless it is done or under way. A failure is told once, to one caller;
    whoever asks after that tries anew."""
    job.root.mkdir(parents=True, exist_ok=True)
    if (done := _done(job, finished)) is not None:
        return done
    with _locked(job):
        told = _read(job)
        if (done := _done(job, finished)) is not None:
            return done
        if told.get("state") == "failed":
            job.progress.unlink(missing_ok=True)
            return Install("failed", int(told.get("percent", 0)), str(told.get("detail", "")))
        if told and _alive(told):
            return Install("running", int(told["percent"]), str(told["detail"]))
        # Its own process was killed; what that had started may still write to the same place.
        _end(told)
        try:
            _start(job, argv)
        except InstallFailed as failure:
            return Install("failed", 0, str(failure))
        return Install("running", 0, "begins")


@dataclass
class Progress:
    """What the working process says of itself."""

    job: Job
    percent: int = 0
    detail: str = ""

    def say(self, percent: int, detail: str) -> None:
        if (percent, detail) != (self.percent, self.detail):
            self.percent, self.detail = percent, detail
            self._write("running")

    def fail(self, detail: str) -> None:
        self.detail = detail
        self._write("failed")

    def _write(self, state: str) -> None:
        me = processes.myself()
        told = {"state": state, "percent": self.percent, "detail": self.detail}
        identity = {"pid": me.pid, "start_ticks": me.start_ticks, "boot_id": processes.this_boot()}
        shim.write(str(self.job.progress), json.dumps(told | identity))


def work(job: Job, finished: Callable[[Path], str | None], make: Callable[[Progress], None]) -> int:
    """The body of the process that `ensure` starts; returns its exit code."""
    progress = Progress(job)
    progress.say(0, "begins")
    failure = f"the installer broke off; its log is {job.log}"
    try:
        if finished(job.target) is None:
            make(progress)
        failure = ""
    except InstallFailed as error:
        failure = str(error)
    except OSError as error:
        failure = explain(error, job.root)
    finally:
        if failure:
            progress.fail(failure)
    if not failure:
        job.progress.unlink(missing_ok=True)
    return 1 if failure else 0


def explain(error: OSError, root: Path) -> str:
    if error.errno == 28:
        return f"the disk of {root} is full: free some space there, or choose another place"
    return f"{error.strerror or error}: {error.filename or root}"


def stop_all(root: Path) -> list[int]:
    """End whatever is at work below `root`; half-made results are no obstacle to the next try."""
    ended = []
    for path in root.glob("*.progress.json"):
        told = _load(path)
        if told and _alive(told):
            ended.append(int(told["pid"]))
        _end(told)
    return ended


def poll(ask: Callable[[], Install], every_seconds: float = 1.0) -> Iterator[Install]:
    """Each news of an install in the foreground, the end included."""
    last = None
    while True:
        now = ask()
        if now != last:
            yield now
        if now.state != "running":
            return
        last = now
        time.sleep(every_seconds)


def _done(job: Job, finished: Callable[[Path], str | None]) -> Install | None:
    detail = finished(job.target)
    return None if detail is None else Install("done", 100, detail, str(job.target))


def _start(job: Job, argv: list[str]) -> None:
    job.progress.unlink(missing_ok=True)
    with job.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, *argv],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=Path(__file__).parent.parent,
        )
    # Somebody has to hear of its end, or it stays a zombie.
    threading.Thread(target=process.wait, daemon=True).start()
    deadline = time.monotonic() + START_WAIT_SECONDS
    while not _read(job) and process.returncode != 0:
        # Looked at once more: a worker that fails at once says so just before it ends.
        ended = process.returncode is not None and not _read(job)
        if ended or time.monotonic() >= deadline:
            process.kill()
            raise InstallFailed(f"the installer did not start; its log is {job.log}")
        time.sleep(_POLL_SECONDS)


def _alive(told: dict[str, Any]) -> bool:
    return processes.same(told["pid"], told["start_ticks"], told["boot_id"])


def _end(told: dict[str, Any]) -> None:
    if told:
        processes.end_all(lambda: processes.session(**_who(told)), STOP_GRACE_SECONDS)


def _who(told: dict[str, Any]) -> dict[str, Any]:
    return {name: told[name] for name in ("pid", "start_ticks", "boot_id")}


def _read(job: Job) -> dict[str, Any]:
    return _load(job.progress)


def _load(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    wanted = {"state", "percent", "detail", "pid", "start_ticks", "boot_id"}
    return told if isinstance(told, dict) and wanted <= told.keys() else {}


@contextmanager
def _locked(job: Job) -> Iterator[None]:
    with (job.root / f"{job.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
