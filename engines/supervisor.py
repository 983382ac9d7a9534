"""Starts an engine that outlives us, finds it again, and stops all of it."""

import fcntl
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from engines import processes, shared_memory
from engines.processes import Process
from engines.records import RECORD, read_record
from engines.spec import Command, EngineRecord, EngineSpec

LOG = "engine.log"
SEEN = "seen.json"  # pids, while it is stopped
LOCK_WAIT_SECONDS = 60.0
RECORD_WAIT_SECONDS = 20.0
LOG_BYTES_MAX = 32 << 20
TAIL_BYTES_MAX = 256 << 10
_POLL_SECONDS = 0.02
_SHIM = Path(__file__).with_name("shim.py")


class EngineError(Exception):
    """What this room refuses or cannot do; the message says why."""


class LaunchFailed(EngineError):
    """No engine came up to be recorded."""


class Superseded(EngineError):
    """A later generation was launched in this folder already: the order came late."""


class Busy(EngineError):
    """Another process is starting or stopping this engine, for longer than we wait."""


class StillRuns(EngineError):
    """Something of this launch is alive, so its folder is kept."""


@dataclass(frozen=True)
class Stopped:
    """`gone` only when no process is left; those that are hold memory that must not be reused.

    `seen_pids`: all that this launch was ever seen to have when it was stopped.
    """

    gone: bool
    left_pids: tuple[int, ...] = ()
    seen_pids: tuple[int, ...] = field(default=(), compare=False)


def launch(spec: EngineSpec, command: Command, folder: Path, home: str) -> EngineRecord:
    """Start the engine in a session of its own, or return the record of this very launch.

    Safe to repeat: a generation is started once. If its engine has died since, the dead record
    comes back (`alive` says so); another try is another generation.
    """
    with _locked(folder):
        record = read_record(folder)
        if record and record.generation == spec.generation:
            return record
        if record and record.generation > spec.generation:
            raise Superseded(f"generation {record.generation} of {folder.name} was launched later")
        if record and not (left := _stop(record, folder, grace_seconds=5.0)).gone:
            raise LaunchFailed(f"processes of an earlier launch cannot be ended: {left.left_pids}")
        return _start(spec, command, folder, home)


def adopt(folder: Path) -> EngineRecord | None:
    """The engine launched here, if it still runs."""
    record = read_record(folder)
    return record if record and alive(record) else None


def alive(record: EngineRecord) -> bool:
    return processes.same(record.pid, record.start_ticks, record.boot_id)


def members(record: EngineRecord) -> list[Process]:
    """All processes of this launch: its session, and those that left it but carry its marks."""
    if record.boot_id != processes.this_boot():
        return []
    found = processes.session(record.pid, record.start_ticks, record.boot_id)
    mark = {"WEIR_HOME": record.home, "WEIR_REPLICA": str(record.replica_id)}
    left_it = (
        process
        for process in processes.all_running()
        if process.start_ticks >= record.start_ticks
        and processes.environment(process.pid, tuple(mark)) == mark
    )
    return sorted({*found, *left_it}, key=lambda process: process.pid)


def stop(folder: Path, grace_seconds: float) -> Stopped:
    """End every process of this launch: asked first, killed after the grace."""
    with _locked(folder):
        record = read_record(folder)
        return _stop(record, folder, grace_seconds) if record else Stopped(gone=True)


def begin_anew(folder: Path, grace_seconds: float) -> Stopped:
    """Stop the launch and forget that it was: the same generation may be launched once more."""
    with _locked(folder):
        record = read_record(folder)
        stopped = _stop(record, folder, grace_seconds) if record else Stopped(gone=True)
        if stopped.gone:
            (folder / RECORD).unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                (folder / LOG).rename(folder / f"{LOG}.1")
        return stopped


def held_bytes(folder: Path, device_bytes: Mapping[int, int]) -> int:
    """Memory of a launch's session, in the host and (as told by process) on cards."""
    return sum(
        processes.resident_bytes(process.pid) + device_bytes.get(process.pid, 0)
        for process in _session(folder)
    )


def host_memory_bytes(folder: Path) -> int:
    """What the processes of a launch hold for themselves: what grows when one leaks."""
    return sum(processes.own_bytes(process.pid) for process in _session(folder))


def _session(folder: Path) -> list[Process]:
    record = read_record(folder)
    return processes.session(record.pid, record.start_ticks, record.boot_id) if record else []


def exit_code(record: EngineRecord) -> int | None:
    """Of an engine that ended as a child of this process: negative for a signal; else None."""
    try:
        found = os.waitid(os.P_PID, record.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def log_text(folder: Path, bytes_max: int = TAIL_BYTES_MAX) -> str:
    """The end of the engine's log, enough of it to read phases and causes from."""
    try:
        with (folder / LOG).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - bytes_max))
            return file.read(bytes_max).decode(errors="replace")
    except FileNotFoundError:
        return ""


def log_tail(folder: Path, lines: int = 40) -> list[str]:
    """The last lines; of a line written over itself (a progress bar) only the last state."""
    text = log_text(folder)
    return [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n") if line][-lines:]


def trim_log(folder: Path, bytes_max: int = LOG_BYTES_MAX) -> bool:
    """Keep the last megabytes in engine.log.1 and begin anew; the engine goes on appending."""
    path = folder / LOG
    if not path.exists() or path.stat().st_size <= bytes_max:
        return False
    (folder / f"{LOG}.1").write_text(log_text(folder, bytes_max // 8))
    os.truncate(path, 0)
    return True


def forget(folder: Path) -> None:
    """Remove what a stopped launch left on disk; refuses while a process of it runs."""
    record = read_record(folder)
    if record and (left := members(record)):
        raise StillRuns(f"{folder.name} still has processes: {_pids(left)}")
    shutil.rmtree(folder, ignore_errors=True)


def _start(spec: EngineSpec, command: Command, folder: Path, home: str) -> EngineRecord:
    record = EngineRecord(
        replica_id=spec.replica_id,
        generation=spec.generation,
        pid=0,  # the shim writes its own, and its start time
        start_ticks=0,
        boot_id=processes.this_boot(),
        host=spec.host,
        port=spec.port,
        home=home,
    )
    marks = {"WEIR_HOME": home, "WEIR_REPLICA": str(spec.replica_id)}
    argv = [sys.executable, "-I", "-S", str(_SHIM), str(folder), json.dumps(asdict(record))]
    pid = _spawn([*argv, *command.argv], command.env | marks, folder / LOG)
    return _await_record(folder, pid)


def _spawn(argv: list[str], env: dict[str, str], log: Path) -> int:
    """A new session with all signals as they were born: a worker may ignore some of them."""
    catchable = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    writable = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        argv[0],
        argv,
        env,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), writable, 0o640),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=catchable,
    )


def _await_record(folder: Path, pid: int) -> EngineRecord:
    deadline = time.monotonic() + RECORD_WAIT_SECONDS
    while time.monotonic() < deadline:
        record = read_record(folder)
        if record and record.pid == pid:
            return record
        if processes.read(pid) is None:
            _reap(pid)
            said = " ".join(log_tail(folder, 3)) or "no word"
            raise LaunchFailed(f"the process ended before it was recorded: {said}")
        time.sleep(_POLL_SECONDS)
    os.killpg(pid, signal.SIGKILL)
    raise LaunchFailed(
        f"no record after {RECORD_WAIT_SECONDS:.0f} s: is the disk of {folder} slow?"
    )


def _stop(record: EngineRecord, folder: Path, grace_seconds: float) -> Stopped:
    seen = _seen_before(folder) | {record.pid}

    def find() -> list[Process]:
        found = members(record)
        if new := {process.pid for process in found} - seen:
            seen.update(new)
            (folder / SEEN).write_text(json.dumps(sorted(seen)))
        return found

    left = processes.end_all(find, grace_seconds)
    if not left and record.boot_id == processes.this_boot():
        shared_memory.free_leftovers(processes.started_at_seconds(record.start_ticks) - 1)
        _reap(record.pid)
    return Stopped(not left, _pids(left), tuple(sorted(seen)))


def _seen_before(folder: Path) -> set[int]:
    """By an earlier try to stop it: a driver may go on to tell of what has ended since."""
    try:
        return set(json.loads((folder / SEEN).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return set()


def _reap(pid: int) -> None:
    """Let go of a dead child; one that another process launched is not ours to reap."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _pids(found: list[Process]) -> tuple[int, ...]:
    return tuple(process.pid for process in found)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One launch or stop at a time for each engine, over all processes of the host."""
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    with (folder / "lock").open("w") as file:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() >= deadline:
                raise Busy(f"{folder.name} is being started or stopped by another process")
            time.sleep(_POLL_SECONDS)
        yield
