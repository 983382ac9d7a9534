"""The gateway's parent: starts workers again, ships what they wrote, shows what they count."""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from django.db import Error as DatabaseError
from django.utils import timezone

from control.gateway.process import scraping, succession
from control.gateway.process.lately import Counts, Lately
from control.gateway.process.reports import PIPE_BYTES, Report, merged
from control.gateway.process.worker import spool_folder
from control.gateway.recording import metrics
from control.gateway.recording.metrics import Bounds, Tally
from control.metering.backlog import Batch
from control.metering.ingest import Shipped, left, ship
from control.metering.traces import kept_calls
from control.telemetry.messages import GatewaySample
from control.telemetry.otlp import Exporter
from control.telemetry.outages import Outage
from control.telemetry.publish import Publisher

log = logging.getLogger(__name__)

_SHIP_SECONDS = 1.0  # a batch costs as much as forty calls in it; sums may be two seconds old
_PUBLISH_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_NICENESS = 5  # a quarter of a core that workers want for themselves; shipping takes a sixth
_STEADY_SECONDS = 10.0  # a worker that lived so long starts again without waiting
_BACK_OFF_SECONDS_MAX = 5.0
_SETTLING_SECONDS = 10.0  # of a worker whose calls have ended, on a busy host


@dataclass
class Child:
    """One place among the workers, whoever fills it now."""

    number: int
    owner: str = ""
    process: subprocess.Popen | None = None
    started_at: float = 0.0
    start_at: float = 0.0  # not before
    back_off_seconds: float = 0.1
    report: Report | None = None
    finished: list[Tally] = field(default_factory=list)  # counters of those that ended


class Parent:
    """`worker_argv` is the command of a worker, to which `--owner NAME` is added."""

    def __init__(
        self,
        *,
        worker_argv: list[str],
        sockets: list[socket.socket],
        home: Path,
        metrics_port: int,
        drain_seconds: float,
        exporter: Exporter | None = None,
    ) -> None:
        self._argv = worker_argv
        self._spool = spool_folder(home)
        self._sockets = sockets
        self._children = [Child(number) for number in range(len(sockets))]
        self._metrics_port = metrics_port
        self._drain_seconds = drain_seconds
        self._name = succession.parent_name()
        self._serves = False  # all of its workers have, at some time
        self._orphans: list[Path] = []  # spools of workers that outlived their parent
        self._stopping = threading.Event()
        self._ended = threading.Event()  # the workers have; what they wrote is still shipped
        self._left = 0
        self._database_away = False
        self._outage = Outage(log, "usage waits in the spool")
        self._bounds = Bounds()
        self._exporter = exporter

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stopping.set())
        threads = [
            threading.Thread(target=self._every, args=(_SHIP_SECONDS, self._ship), name="ship"),
            threading.Thread(target=self._every, args=(_PUBLISH_SECONDS, Publishing(self).publish)),
        ]
        self._orphans = succession.orphans(self._spool)
        for thread in threads:
            thread.start()
        server = scraping.serve(self._metrics_port, self.metrics_text)
        while not self._stopping.is_set():
            self._look_after_workers()
            self._stopping.wait(_LOOK_SECONDS)
        self._stop_workers()
        self._ended.set()
        for thread in threads:
            thread.join()
        if not self._database_away:  # else it waits for the next start, and we for nothing
            self._ship()
        if self._exporter:
            self._exporter.close()
        if server:
            server.shutdown()

    # --- workers ---

    def _look_after_workers(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.process and child.process.poll() is not None:
                self._buried(child, now)
            if child.process is None and now >= child.start_at:
                self._start(child, now)
        if not self._serves and all(child.report for child in self._children):
            self._serves = True
            succession.announce(self._spool, self._name)

    def _start(self, child: Child, now: float) -> None:
        """From the main thread only: a worker dies with the thread that forked it."""
        child.owner = succession.owner_name(self._name, child.number, int(time.time() * 1000))
        listener = self._sockets[child.number].fileno()
        child.process = subprocess.Popen(
            [*self._argv, "--owner", child.owner, "--listener", str(listener)],
            pass_fds=(listener,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            pipesize=PIPE_BYTES,
        )
        child.started_at = now
        threading.Thread(
            target=self._read_reports, args=(child, child.process), name="reports", daemon=True
        ).start()

    def _buried(self, child: Child, now: float) -> None:
        steady = now - child.started_at > _STEADY_SECONDS
        child.back_off_seconds = (
            0.1 if steady else min(child.back_off_seconds * 2, _BACK_OFF_SECONDS_MAX)
        )
        log.warning(
            "gateway worker %d ended with %d; starting it again in %.1f s",
            child.number,
            child.process.returncode,
            child.back_off_seconds,
        )
        if child.report:
            child.finished = [metrics.total([*child.finished, Tally(child.report.tally.counters)])]
        child.process, child.report, child.owner = None, None, ""
        child.start_at = now + child.back_off_seconds

    def _read_reports(self, child: Child, process: subprocess.Popen) -> None:
        for line in process.stdout:
            with contextlib.suppress(msgspec.DecodeError):
                if child.process is process:
                    child.report = merged(child.report, line)

    def _stop_workers(self) -> None:
        # Each worker is the last to hold its socket then, and accepts what waits in its queue.
        for one in self._sockets:
            one.close()
        succession.announce(self._spool, self._name)
        running = [child.process for child in self._children if child.process]
        for process in running:
            process.terminate()
        until = time.monotonic() + self._drain_seconds + _SETTLING_SECONDS
        for process in running:
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                log.error("a gateway worker did not stop in time and is killed")
                process.kill()
                process.wait()
        if succession.wait_for(self._orphans, until):
            log.error("workers of a parent before this one have not ended yet")
        for child in self._children:
            child.owner = ""

    # --- beside them ---

    def _every(self, seconds: float, act: Callable[[], None]) -> None:
        """In a thread of its own. A batch takes 10 to 100 ms, beside which streams are to go on."""
        with contextlib.suppress(OSError):  # where a host forbids it; usage is shipped all the same
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while not self._ended.wait(seconds):
            act()

    def _ship(self) -> None:
        owners = {child.owner for child in self._children if child.owner}
        try:
            shipped: Shipped = ship(self._spool, owners, timezone.now(), tell=self._export)
            self._left, self._database_away = shipped.left, False
            self._outage.is_over()
        except (DatabaseError, OSError) as error:
            self._database_away = isinstance(error, DatabaseError)
            self._left = left(self._spool)
            self._outage.goes_on(error)
        except Exception:
            log.exception("the spool could not be shipped")

    def _export(self, batch: Batch) -> None:
        if self._exporter:
            self._exporter.put(kept_calls(batch))

    def reports(self) -> list[tuple[str, Report, int]]:
        """Owner, what it reported last, and its part of the records that are not shipped yet."""
        alive = [(c.owner, c.report) for c in self._children if c.report and c.owner]
        return [
            (owner, report, 0 if place else self._left)
            for place, (owner, report) in enumerate(alive)
        ]

    def metrics_text(self) -> str:
        tallies = [tally for child in self._children for tally in child.finished]
        tallies += [child.report.tally for child in self._children if child.report]
        total = metrics.total(tallies, self._bounds)
        total.gauges["spool_events"] = self._left
        if self._exporter:
            total.counters["traces_dropped_total"] = self._exporter.dropped
        return metrics.text(total)


class Publishing:
    """Workers as samples, for live charts."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._publisher = Publisher()
        self._lately = Lately()

    def publish(self) -> None:
        at = time.time()
        reports = self._parent.reports()
        self._lately.keep_only({owner for owner, _, _ in reports})
        samples = [self._sampled(at, *report) for report in reports]
        if samples:
            self._publisher.share(samples)

    def _sampled(self, at: float, owner: str, report: Report, left: int) -> GatewaySample:
        sample = _sample(at, owner, report, left)
        return replace(sample, **self._lately.of(sample, _counts(report.tally.counters)))


def _counts(counters: dict[str, float]) -> Counts:
    names = ("calls_total", "attempts_total", "refused_total", "retries_total")
    ended, tries, refused, retries = (int(metrics.sum_of(counters, name)) for name in names)
    return Counts(ended, tries, ended + refused, retries)


def _sample(at: float, owner: str, report: Report, left: int) -> GatewaySample:
    counters, gauges = report.tally.counters, report.tally.gauges
    return GatewaySample(
        at=at,
        owner=owner,
        in_flight=int(gauges.get("in_flight", 0)),
        waiting=int(metrics.sum_of(gauges, "waiting")),
        calls_total=int(metrics.sum_of(counters, "calls_total")),
        tokens_total=int(metrics.sum_of(counters, "tokens_total")),
        ttft_seconds_sum=metrics.sum_of(counters, "ttft_seconds_sum"),
        ttft_count=int(metrics.sum_of(counters, "ttft_seconds_count")),
        tpot_seconds_sum=metrics.sum_of(counters, "tpot_seconds_sum"),
        tpot_count=int(metrics.sum_of(counters, "tpot_seconds_count")),
        snapshot_age_seconds=report.snapshot_age_seconds,
        spool_events=left,
        loads=report.loads,
    )
