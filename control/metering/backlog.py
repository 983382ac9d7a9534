"""What of a spool is not stored yet: the remembered position, the next lines, calls still open."""

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from control.metering.lines import Lines, OpenCall
from control.metering.records import Close, Open, Refused
from control.metering.segments import lines_from, read_lines, segments, sync_folder
from control.states import Outcome, TokensSource

REMEMBERED = "shipped.json"
BAD_SUFFIX = ".bad"
OPEN_SECONDS_MAX = 3600.0  # six times what gateways let a call last (limits.total_seconds)


class Position(msgspec.Struct):
    """Everything before it is stored; written only after the commit that stored it."""

    segment: int = 0
    offset: int = 0


class Remembered(Position):
    """With the calls that are open there, which may be many."""

    calls: dict[str, OpenCall] = {}


@dataclass
class Batch:
    """The next lines of one owner, sorted by what becomes of them."""

    after: Remembered
    closes: list[Close] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)  # of what each close says
    rich: list[Close] = field(default_factory=list)  # those that say more than events take
    refused: list[tuple[int, int, Refused]] = field(default_factory=list)  # segment, offset
    bad: list[tuple[Path, bytes]] = field(default_factory=list)
    lost: list[Close] = field(default_factory=list)
    lines: int = 0
    is_whole: bool = False  # nothing was left unread
    is_last: bool = False  # of a dead owner: nothing will follow

    @property
    def has_news(self) -> bool:
        return bool(self.lines or self.bad or self.lost)


_Remembered = TypeVar("_Remembered", bound=Position)


def remembered(folder: Path, kind: type[_Remembered]) -> _Remembered:
    """Nothing remembered, or nothing readable, means from the start: storing twice is harmless."""
    try:
        return msgspec.json.decode((folder / REMEMBERED).read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.DecodeError):
        return kind()


def remember(folder: Path, position: Remembered) -> None:
    """Replace the file as a whole: half a position would be none."""
    new = folder / f"{REMEMBERED}.new"
    with new.open("wb") as file:
        file.write(msgspec.json.encode(position))
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, folder / REMEMBERED)
    sync_folder(folder)


def read(folder: Path, alive: bool, lines_max: int, at_seconds: float = 0.0) -> Batch:
    """The next lines, at most `lines_max`. The end of a dead owner's last line makes calls lost."""
    batch = Batch(after=remembered(folder, Remembered))
    paths = segments(folder)  # listed before reading: all but the newest are whole by then
    lines = Lines()
    _read(batch, lines, paths, lines_max, alive)
    batch.closes, batch.hashes, batch.rich = lines.ends(batch.after.calls)
    batch.refused, batch.bad = lines.refused, [*lines.bad, *batch.bad]
    if batch.is_whole and alive:
        _sweep(batch, at_seconds)
    elif batch.is_whole:
        _end(batch, paths)
    return batch


def _read(batch: Batch, lines: Lines, paths: list[Path], lines_max: int, alive: bool) -> None:
    after = batch.after
    for path in paths:
        number = int(path.stem)
        if number < after.segment:
            continue
        if number > after.segment:
            after.segment, after.offset = number, 0
        for block in read_lines(path, after.offset):
            del block[lines_max - batch.lines :]
            batch.lines += len(block)
            after.offset = lines.add(path, after.offset, block)
            if batch.lines >= lines_max:
                return
        if path != paths[-1] or not alive:
            _take_torn_end(batch, path)
    batch.is_whole = True


def _take_torn_end(batch: Batch, path: Path) -> None:
    """Nobody will end this line any more: a power cut, or a disk that was full."""
    with path.open("rb") as file:
        file.seek(batch.after.offset)
        torn = file.read()
    if torn.strip():
        batch.bad.append((path, torn))
    batch.after.offset += len(torn)


def _end(batch: Batch, paths: list[Path]) -> None:
    batch.is_last = True
    last_sign_seconds = max((path.stat().st_mtime for path in paths), default=0.0)
    batch.lost = [lost(call, last_sign_seconds) for call in batch.after.calls.values()]
    batch.after.calls = {}


def _sweep(batch: Batch, at_seconds: float) -> None:
    """No call lasts so long: its gateway has forgotten it. An end that comes later rings."""
    calls = batch.after.calls
    overdue = [
        name for name, call in calls.items() if call.open.started_at < at_seconds - OPEN_SECONDS_MAX
    ]
    batch.lost = [lost(calls.pop(name), at_seconds) for name in overdue]


def lost(call: OpenCall, ended_at: float) -> Close:
    """The end of a call whose gateway died: what was last heard, or the estimate of its input."""
    opened, heard = call.open, call.progress
    return Close(
        **{name: getattr(opened, name) for name in SAME_IN_OPEN_AND_CLOSE},
        attempts=1,
        outcome=Outcome.LOST,
        status=0,
        finish_reason="",
        input_tokens=heard.input_tokens if heard else opened.input_estimate,
        cached_input_tokens=heard.cached_input_tokens if heard else 0,
        output_tokens=heard.output_tokens if heard else 0,
        reasoning_tokens=0,
        delivered_tokens=0,
        tokens_source=TokensSource.ESTIMATED,
        first_token_at=None,
        ended_at=max(ended_at, opened.started_at),
    )


SAME_IN_OPEN_AND_CLOSE = tuple(
    name for name in Open.__struct_fields__ if name in Close.__struct_fields__
)


def set_aside(bad: list[tuple[Path, bytes]]) -> None:
    """Keep what could not be understood beside the segment, for a person to look at."""
    for path, raw in bad:
        with path.with_name(path.name + BAD_SUFFIX).open("ab") as file:
            file.write(raw if raw.endswith(b"\n") else raw + b"\n")


def forget(folder: Path, batch: Batch) -> None:
    """Delete what is stored: segments before the position; of a dead owner, everything."""
    for path in segments(folder):
        if batch.is_last or int(path.stem) < batch.after.segment:
            path.unlink(missing_ok=True)
    if batch.is_last:
        for name in (REMEMBERED, f"{REMEMBERED}.new"):
            (folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # lines set aside stay, and the folder with them
            folder.rmdir()


def lines_left(folder: Path) -> int:
    """Whole lines behind the position: the calls that are open there are not decoded for it."""
    position = remembered(folder, Position)
    return sum(
        lines_from(path, position.offset if int(path.stem) == position.segment else 0)
        for path in segments(folder)
        if int(path.stem) >= position.segment
    )
