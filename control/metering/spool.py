"""A gateway worker's journal of calls: appended at once, fsynced in groups, then shipped."""

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from control.metering.bounds import BOUNDS, Bounds
from control.metering.records import Record, line_of
from control.metering.segments import claim, segments, sync_folder

SEGMENT_BYTES_MAX = 8 * 1024 * 1024
SEGMENT_SECONDS_MAX = 60.0
SYNC_GROUP_SECONDS = 0.015  # with the fsync itself a record is on the disk within about 20 ms
SYNC_RETRY_SECONDS = 1.0
LOOKS = 20  # for records, before it waits to be woken
MEASURE_SECONDS = 1.0

log = logging.getLogger(__name__)


class SpoolClosed(Exception):
    """A record came after close(): whoever stops the gateway must let calls end first."""


class SpoolWriter:
    """Appends from any thread; a thread of its own fsyncs what was written.

    `has_room` turns False when the shipper has not kept up and the spools of all owners together
    have reached a bound: admit nothing new then. Calls already admitted are written all the
    same, for they must end in an event.
    """

    def __init__(
        self,
        directory: Path,
        owner: str,
        *,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        bounds: Bounds = BOUNDS,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.folder = Path(directory) / owner
        self.has_room = True
        self._segment_bytes_max = segment_bytes_max
        self._bounds = bounds
        self._clock = clock
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._sleeps = False  # the thread: it is woken by the first write alone
        self._unsynced = False
        self._retired: list[int] = []  # full segments, to be fsynced and closed by the thread
        self._file: int | None = None
        self._torn = False
        self._closed = False
        self._claim = claim(self.folder)
        self._sequence = self._last_sequence()
        self._synced_sequence = 0
        self._measure_at = 0.0
        self._open_segment()
        self._thread = threading.Thread(target=self._sync_forever, name="spool-fsync", daemon=True)
        self._thread.start()

    def append(self, record: Record) -> None:
        """Write the record now; it survives kill -9 when this returns, a power cut soon after."""
        line = line_of(record)
        written = self.append_lines([line])
        if not written:
            raise OSError(f"the disk did not take a spool record of {len(line)} bytes")

    def append_lines(self, lines: list[bytes]) -> int:
        """Write lines of records now, together: how many of them, from the first, are written.

        One write costs as much as one line. A disk that fills up may take the first ones only.
        """
        with self._lock:
            if self._closed:
                raise SpoolClosed(f"spool {self.folder.name} is closed")
            if self._is_full():
                self._open_segment()
            written = self._write(lines)
        self._unsynced = True
        if self._sleeps:
            self._wake.set()
        return written

    def close(self) -> None:
        """Put everything on the disk and end the thread. Closing twice is harmless."""
        with self._lock:
            self._closed = True
        self._wake.set()
        self._thread.join()
        if self._file is not None:
            self._sync()
            os.close(self._file)
            os.close(self._claim)
            self._file = None

    def _is_full(self) -> bool:
        if not self._size:
            return False
        age = self._clock() - self._opened_at
        return self._size >= self._segment_bytes_max or age >= SEGMENT_SECONDS_MAX

    def _write(self, lines: list[bytes]) -> int:
        if self._torn:  # end the line that a full disk cut off, or this one would be lost with it
            os.write(self._file, b"\n")
            self._torn = False
        data = lines[0] if len(lines) == 1 else b"".join(lines)
        size = os.write(self._file, data)
        self._size += size
        if size == len(data):
            return len(lines)
        whole = data[:size].count(b"\n")
        self._torn = not data[:size].endswith(b"\n")
        log.error("spool %s: the disk took %d of %d bytes", self.folder.name, size, len(data))
        return whole

    def _last_sequence(self) -> int:
        return max((int(path.stem) for path in segments(self.folder)), default=0)

    def _open_segment(self) -> None:
        path = self.folder / f"{self._sequence + 1:08d}.jsonl"
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        if self._file is not None:
            self._retired.append(self._file)
        self._file, self._size, self._opened_at = file, 0, self._clock()
        self._sequence += 1

    def _sync_forever(self) -> None:
        while not self._closed:
            self._wait_for_writes()
            try:
                self._sync()
            except OSError:
                log.exception("spool %s could not be synced; trying again", self.folder.name)
                self._unsynced = True

    def _wait_for_writes(self) -> None:
        """Waking a thread costs the one that writes as much as the write: while records come, this
        one looks for them by itself."""
        for _ in range(LOOKS):
            time.sleep(0 if self._closed else SYNC_GROUP_SECONDS)
            if self._unsynced or self._closed:
                return
        self._sleeps = True
        if not (self._unsynced or self._closed):
            self._wake.wait(SYNC_RETRY_SECONDS)
        self._sleeps = False
        self._wake.clear()

    def _sync(self) -> None:
        with self._lock:
            self._unsynced = False
            # May be retired meanwhile, but only this method closes what is retired.
            current = self._file
            retired = self._retired[:]
        for file in (*retired, current):
            os.fdatasync(file)
        for file in retired:
            os.close(file)
            self._retired.remove(file)
        if self._synced_sequence != self._sequence:
            self._synced_sequence = self._sequence
            sync_folder(self.folder)
            sync_folder(self.folder.parent)
        if self._clock() >= self._measure_at:
            self._measure_at = self._clock() + MEASURE_SECONDS
            self.has_room = self._bounds.leave_room(self.folder.parent)
