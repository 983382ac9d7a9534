"""Files of a spool: which there are, whose, and their lines."""

import contextlib
import fcntl
import functools
import os
import time
from collections.abc import Iterator
from pathlib import Path

from control.metering.records import LINE_BYTES_MAX

CLAIM_TRIES = 100
CLAIM_RETRY_SECONDS = 0.05
BLOCK_BYTES = 256 * 1024  # what of the last one is too much for a batch is read again


class OwnerTaken(Exception):
    """Another process writes under this owner's name."""


def segments(folder: Path) -> list[Path]:
    """The owner's files, oldest first."""
    return sorted(path for path in folder.glob("*.jsonl") if path.stem.isdigit())


def owners(directory: Path) -> list[str]:
    """The writers of this spool whose files are not all shipped and forgotten yet."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(
            path.name for path in Path(directory).iterdir() if path.is_dir() and path.name[0] != "."
        )
    return []


def read_lines(path: Path, offset: int = 0) -> Iterator[list[bytes]]:
    """Whole lines from an offset, some thousands at once; empty ones are among them.

    A last line without its end is left for the next reading: what is written meanwhile is the
    rest of it, and no line.
    """
    with path.open("rb") as file:
        file.seek(offset)
        while lines := file.readlines(BLOCK_BYTES):
            if max(map(len, lines)) >= LINE_BYTES_MAX:
                lines = [piece for line in lines for piece in _pieces(line)]
            is_torn = not lines[-1].endswith(b"\n") and len(lines[-1]) < LINE_BYTES_MAX
            if is_torn:
                del lines[-1]
            if lines:
                yield lines
            if is_torn:
                return


def _pieces(line: bytes) -> list[bytes]:
    """No record is so long."""
    return [line[at : at + LINE_BYTES_MAX] for at in range(0, len(line), LINE_BYTES_MAX)]


def bytes_in_all(directory: Path) -> int:
    return sum(bytes_in(Path(directory) / owner) for owner in owners(directory))


def lines_in_all(directory: Path) -> int:
    """Of all owners: what is shipped of the oldest segments is still among them."""
    return sum(
        lines_from(path, 0)
        for owner in owners(directory)
        for path in segments(Path(directory) / owner)
    )


def lines_from(path: Path, offset: int) -> int:
    """Ends of lines behind an offset. A segment that has not grown is not read again."""
    try:
        return _ends_of_lines(path, offset, path.stat().st_size)
    except FileNotFoundError:  # stored, and deleted by the shipper
        return 0


@functools.lru_cache(maxsize=4096)
def _ends_of_lines(path: Path, offset: int, size: int) -> int:
    count, left = 0, size - offset
    with path.open("rb") as file:
        file.seek(offset)
        while left > 0 and (block := file.read(min(left, BLOCK_BYTES))):
            count += block.count(b"\n")
            left -= len(block)
    return count


def sync_folder(folder: Path) -> None:
    """A new name in a folder survives a power cut only when the folder itself is on the disk."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def bytes_in(folder: Path) -> int:
    total = 0
    for path in segments(folder):
        with contextlib.suppress(FileNotFoundError):  # the shipper deletes what it has stored
            total += path.stat().st_size
    return total


def claim(folder: Path) -> int:
    """Make the folder and lock it until the process ends, however it ends."""
    for _ in range(CLAIM_TRIES):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            lock = _locked(folder)
            if lock is not None and os.fstat(lock).st_nlink:
                return lock
            if lock is not None:  # the shipper has just removed the folder, as it was empty
                os.close(lock)
        time.sleep(CLAIM_RETRY_SECONDS)
    raise OwnerTaken(f"spool {folder.name} is written by another process")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Whether nobody else holds the folder; nobody does then until the end of the block."""
    lock = _locked(folder)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _locked(folder: Path) -> int | None:
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
