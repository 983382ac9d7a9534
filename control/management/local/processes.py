"""Own supervision: start in stages, restart with back-off, stop in reverse, leave nobody behind."""

import asyncio
import codecs
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from control.management.local.death import dies_with_us
from control.management.local.home import Process
from control.management.local.logs import Log

PROBE_SECONDS = 0.05
BACK_OFF_SECONDS_MIN = 0.5
BACK_OFF_SECONDS_MAX = 30
# Alive this long, a child has proved itself: its next failure begins a new back-off. Long, as
# on a busy machine an import that fails takes a while to do so.
PROVED_SECONDS = 60
FIRST_STARTS_MAX = 3


class DidNotStart(Exception):
    """A child that does not come up: its name, why, its last words."""

    def __init__(self, name: str, why: str, lines: Sequence[str] = ()) -> None:
        super().__init__(f"{name} {why}")
        self.name, self.why, self.lines = name, why, tuple(lines)


@dataclass(frozen=True)
class Child:
    name: str
    argv: tuple[str, ...]
    ready: Callable[[], bool] | None = None  # asked in a thread until it says yes
    stop_signal: signal.Signals = signal.SIGTERM
    death_signal: signal.Signals = signal.SIGKILL  # what it gets when the supervisor dies
    grace_seconds: float = 15
    starting_seconds_max: float = 60
    popen: dict = field(default_factory=dict)
    terminal: bool = False  # writes where the supervisor writes, not into a log
    leaves_others: bool = False  # when it is killed, its own children go on and end by themselves
    lends: tuple[socket.socket, ...] = ()  # to it; closed before it is stopped


@dataclass
class Run:
    """A child and its present process."""

    child: Child
    log: Log
    process: asyncio.subprocess.Process | None = None
    identity: Process | None = None
    started_at: float = 0
    proved: bool = False
    failures: int = 0
    watch: asyncio.Task | None = None
    reading: asyncio.Task | None = None
    older: list[asyncio.Task] = field(default_factory=list)  # of processes that left others

    def lived_seconds(self) -> float:
        return time.monotonic() - self.started_at


class Supervisor:
    """`say` gets states and errors, one line each; `changed` is called when a pid changes."""

    def __init__(
        self, logs: Path, say: Callable[[str], None], changed: Callable[[], None] = lambda: None
    ) -> None:
        self.logs, self.say, self.changed = logs, say, changed
        self.stages: list[list[Run]] = []
        self.stopping = asyncio.Event()
        self.hurry = asyncio.Event()
        self.failure: DidNotStart | None = None

    @property
    def children(self) -> dict[str, Process]:
        runs = [run for stage in self.stages for run in stage]
        return {run.child.name: run.identity for run in runs if run.identity}

    async def start(self, *children: Child) -> None:
        """One stage: all at once, back when all are ready."""
        stage = [Run(child, Log(self.logs / f"{child.name}.log")) for child in children]
        self.stages.append(stage)
        try:
            async with asyncio.TaskGroup() as group:
                for run in stage:
                    group.create_task(self._bring_up(run))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    async def run(self, child: Child) -> None:
        """Something that ends by itself, such as migrations."""
        run = Run(child, Log(self.logs / f"{child.name}.log"))
        self.stages.append([run])
        await self._spawn(run)
        ended = asyncio.create_task(run.process.wait())
        stopped = asyncio.create_task(self.stopping.wait())
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if self.stopping.is_set():
            return  # stop() ends it with the others
        await _read_to_the_end(run)
        self.stages.remove([run])
        self.changed()
        run.log.close()
        if run.process.returncode:
            raise DidNotStart(child.name, _ending(run.process.returncode), run.log.last)
        if not child.terminal:
            self.say(f"{child.name:<10} done")

    async def stop(self, from_stage: int = 0) -> None:
        """The last stage first; inside a stage all at once."""
        self.stopping.set()
        while len(self.stages) > from_stage:
            await asyncio.gather(*(self._halt(run) for run in self.stages[-1]))
            self.stages.pop()
            self.changed()

    async def _bring_up(self, run: Run) -> None:
        await self._spawn(run)
        while run.child.ready and not self.stopping.is_set():
            if run.process.returncode is not None:
                await self._again_or_give_up(run)
            elif await asyncio.to_thread(run.child.ready):
                run.proved = True
                break
            elif run.lived_seconds() > run.child.starting_seconds_max:
                why = f"did not answer within {run.child.starting_seconds_max:.0f} s"
                raise DidNotStart(run.child.name, why, run.log.last)
            await asyncio.sleep(PROBE_SECONDS)
        if not self.stopping.is_set():
            state = "ready" if run.child.ready else "started"
            self.say(f"{run.child.name:<10} {state}")
            run.watch = asyncio.create_task(self._watch(run))

    async def _again_or_give_up(self, run: Run) -> None:
        """A second try: after a kill, PostgreSQL's memory is in use until its last process left."""
        run.failures += 1
        if run.failures >= FIRST_STARTS_MAX:
            await _read_to_the_end(run)
            raise DidNotStart(run.child.name, _ending(run.process.returncode), run.log.last)
        await self._pause(BACK_OFF_SECONDS_MIN)
        await self._spawn(run)

    async def _watch(self, run: Run) -> None:
        delay_seconds = BACK_OFF_SECONDS_MIN
        while not self.stopping.is_set():
            code = await _ended(run.process)
            if self.stopping.is_set():
                return
            if not run.child.leaves_others:
                _signal_group(run.process.pid, signal.SIGTERM)  # what it left in its session
            if run.lived_seconds() > PROVED_SECONDS:
                run.proved, run.failures, delay_seconds = True, 0, BACK_OFF_SECONDS_MIN
            run.failures += code > 0  # what was killed may well come up the next time
            if not run.proved and run.failures >= FIRST_STARTS_MAX:
                await _read_to_the_end(run)
                self.failure = DidNotStart(run.child.name, _ending(code), run.log.last)
                self.stopping.set()
                return
            self.say(
                f"{run.child.name:<10} {_ending(code)}: starting again in {delay_seconds:g} s"
                f" (logs/{run.child.name}.log)"
            )
            await self._pause(delay_seconds)
            delay_seconds = min(delay_seconds * 2, BACK_OFF_SECONDS_MAX)
            if not self.stopping.is_set():
                await self._spawn(run)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)

    async def _spawn(self, run: Run) -> None:
        if run.reading and run.child.leaves_others:
            run.older.append(run.reading)  # what it left would stand still with a pipe that is full
        elif run.reading:
            run.reading.cancel()
        run.log.last.clear()
        own = None if run.child.terminal else asyncio.subprocess.PIPE
        run.process = await asyncio.create_subprocess_exec(
            *run.child.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=own,
            stderr=own and asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=dies_with_us(run.child.death_signal),
            **run.child.popen,
        )
        run.started_at = time.monotonic()
        with contextlib.suppress(psutil.NoSuchProcess):  # ended and reaped already
            run.identity = Process.of(run.process.pid)
        run.reading = asyncio.create_task(self._read(run, run.process))
        self.changed()

    async def _read(self, run: Run, process: asyncio.subprocess.Process) -> None:
        if not process.stdout:
            return
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while read := await process.stdout.read(65536):
            for line in run.log.feed(decoder.decode(read)):
                self.say(f"{run.child.name:<10} {line}")

    async def _halt(self, run: Run) -> None:
        process = run.process
        if process is None:
            return
        for one in run.child.lends:
            one.close()
        if process.returncode is None:
            process.send_signal(run.child.stop_signal)
            await self._wait_for_end(run)
        if process.returncode is None:
            self.say(f"{run.child.name:<10} did not stop in time: killed")
        _signal_group(process.pid, signal.SIGKILL)
        await _ended(process)
        await _read_to_the_end(run)
        for reading in run.older:
            reading.cancel()
        if run.watch:
            run.watch.cancel()
        run.identity = None
        run.log.close()
        self.say(f"{run.child.name:<10} stopped")

    async def _wait_for_end(self, run: Run) -> None:
        """Its grace, or until somebody is in a hurry (a second Ctrl-C)."""
        ended = asyncio.create_task(_ended(run.process))
        hurry = asyncio.create_task(self.hurry.wait())
        await asyncio.wait(
            {ended, hurry},
            timeout=run.child.grace_seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        hurry.cancel()


async def _ended(process: asyncio.subprocess.Process) -> int:
    """Its exit status. `wait()` comes back only when nobody holds its pipe: its children may."""
    while process.returncode is None:  # noqa: ASYNC110 - asyncio has no event for this
        await asyncio.sleep(PROBE_SECONDS)
    return process.returncode


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def _read_to_the_end(run: Run) -> None:
    """What it wrote before it ended; its own children may hold the pipe open for longer."""
    await asyncio.wait({run.reading}, timeout=1)
    run.reading.cancel()


def _ending(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit status {code}"
