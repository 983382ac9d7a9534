"""What a worker tells its parent each second: what has changed of its counts."""

import os
from dataclasses import asdict

import msgspec

from control.gateway.recording.metrics import Tally
from control.telemetry.messages import DeploymentLoad

PIPE_BYTES = 1024 * 1024  # the kernel's own most


class Report(msgspec.Struct):
    """Of counters only those that have changed since the report before."""

    tally: Tally
    snapshot_age_seconds: float | None
    loads: dict[str, dict] = {}


_decode = msgspec.json.Decoder(Report).decode


class Reporter:
    """Into a pipe that does not block: a parent that does not read stops no call."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._told: dict[str, float] = {}
        self._rest = b""

    def tell(
        self, tally: Tally, snapshot_age_seconds: float | None, loads: dict[str, DeploymentLoad]
    ) -> None:
        if not self._written():
            return  # the next report tells what this one would have
        told = self._told
        changed = {n: value for n, value in tally.counters.items() if told.get(n) != value}
        told |= changed
        plain = {name: asdict(load) for name, load in loads.items()}
        report = Report(Tally(changed, tally.gauges), snapshot_age_seconds, plain)
        self._rest = msgspec.json.encode(report) + b"\n"
        self._written()

    def _written(self) -> bool:
        """Half a line would be none, and the one after it too: its rest is written first."""
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._file, self._rest) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            self._rest = b""
        return True


def merged(known: Report | None, line: bytes) -> Report:
    """A new object: others may be reading the one before."""
    report = _decode(line)
    if known:
        report.tally.counters = known.tally.counters | report.tally.counters
    return report
