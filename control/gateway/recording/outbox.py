"""What one turn of the loop writes down of its calls, in one write, and what may be sent after."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from control.metering.records import Record, line_of
from control.metering.spool import SpoolClosed

log = logging.getLogger(__name__)

OnWritten = Callable[[bool], None]


class Lines(Protocol):
    def append_lines(self, lines: list[bytes]) -> int: ...


class Outbox:
    """Records wait for the end of the turn, and requests to engines for their records.

    A write costs the same for one line as for those of all calls of the turn, and more than
    all else that is done for one of them.
    """

    def __init__(self, spool: Lines) -> None:
        self._spool = spool
        self._lines: list[bytes] = []
        self._told: list[OnWritten | None] = []  # for each line

    def add(self, record: Record, on_written: OnWritten | None = None) -> None:
        """`on_written` is told whether the record is in the spool: then and only then send."""
        self.add_line(line_of(record), on_written)

    def add_line(self, line: bytes, on_written: OnWritten | None = None) -> None:
        if not self._lines:
            asyncio.get_running_loop().call_soon(self.flush)
        self._lines.append(line)
        self._told.append(on_written)

    def flush(self) -> None:
        lines, told = self._lines, self._told
        if not lines:
            return
        self._lines, self._told = [], []
        written = self._write(lines)
        for number, on_written in enumerate(told):
            if on_written:
                try:
                    on_written(number < written)
                except Exception:
                    log.exception("a call could not go on once it was written down")

    def _write(self, lines: list[bytes]) -> int:
        try:
            written = self._spool.append_lines(lines)
        except (OSError, SpoolClosed):
            log.exception("%d records are not in the spool", len(lines))
            return 0
        if written < len(lines):
            log.error("%d records are not in the spool", len(lines) - written)
        return written
