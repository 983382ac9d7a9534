"""Lines of a spool by what they say. Of a call that ended, only the end is worth decoding."""

from pathlib import Path

import msgspec

from control.metering.contents import hashes_of_lines
from control.metering.records import Close, Open, Progress, Record, Refused, record_of

_IDS = {kind: f'{{"type":"{kind}","call_id":"'.encode() for kind in ("open", "progress", "close")}
_IN_OPEN, _IN_PROGRESS, _IN_CLOSE = map(len, _IDS.values())  # where the id begins
_KIND = 15  # so far each line tells what it is
_OPEN, _PROGRESS, _CLOSE = (begins[:_KIND] for begins in _IDS.values())
_encode = msgspec.json.Encoder().encode
_decode_all = msgspec.json.Decoder(Close).decode_lines


class OpenCall(msgspec.Struct):
    """A call that has begun and not ended, with the last tokens heard of it."""

    open: Open
    progress: Progress | None = None


class Lines:
    """Those of one batch, in the order they were written. Calls are known by their ids' bytes."""

    def __init__(self) -> None:
        self.refused: list[tuple[int, int, Refused]] = []  # segment, offset
        self.bad: list[tuple[Path, bytes]] = []
        self._blocks: list[tuple[Path, list[bytes]]] = []
        self._opened: dict[bytes, bytes] = {}
        self._heard: dict[bytes, bytes] = {}
        self._ended: list[bytes] = []
        self._ends: list[bytes] = []

    def add(self, path: Path, offset: int, lines: list[bytes]) -> int:
        """They begin at that offset; returns where they end."""
        self._blocks.append((path, lines))
        opened, heard, ended, ends = self._opened, self._heard, self._ended, self._ends
        for line in lines:
            offset += len(line)
            kind = line[:_KIND]
            if b"\\" in line:  # a quote in it may end nothing
                self._add_other(path, offset, line)
            elif kind == _CLOSE:
                ended.append(line[_IN_CLOSE : line.find(b'"', _IN_CLOSE)])
                ends.append(line)
            elif kind == _OPEN:
                opened[line[_IN_OPEN : line.find(b'"', _IN_OPEN)]] = line
            elif kind == _PROGRESS:
                heard[line[_IN_PROGRESS : line.find(b'"', _IN_PROGRESS)]] = line
            elif line != b"\n":
                self._add_other(path, offset, line)
        return offset

    def _add_other(self, path: Path, offset: int, line: bytes) -> None:
        record = record_of(line)
        if record is None:
            self.bad.append((path, line))
        elif isinstance(record, Refused):
            self.refused.append((int(path.stem), offset, record))
        else:
            self._add_decoded(record, record.call_id.encode(), _encode(record) + b"\n")

    def _add_decoded(self, record: Open | Progress | Close, call: bytes, line: bytes) -> None:
        if isinstance(record, Open):
            self._opened[call] = line
        elif isinstance(record, Progress):
            self._heard[call] = line
        else:
            self._ended.append(call)
            self._ends.append(line)

    def ends(self, calls: dict[str, OpenCall]) -> tuple[list[Close], list[str], list[Close]]:
        """Of calls, the hash of each, and those that say more; `calls` become the ones open now."""
        closes = self._decoded()
        for close in closes if calls else ():
            calls.pop(close.call_id, None)
        ended = set(self._ended)
        for line in [line for call, line in self._opened.items() if call not in ended]:
            if opened := self._understood(line):
                calls[opened.call_id] = OpenCall(opened)
        for line in self._heard_of(calls):
            if heard := self._understood(line):
                calls[heard.call_id].progress = heard
        return closes, *hashes_of_lines(self._ends, closes)

    def _heard_of(self, calls: dict[str, OpenCall]) -> list[bytes]:
        names = [name.encode() for name in calls]
        return [self._heard[name] for name in names if name in self._heard]

    def _decoded(self) -> list[Close]:
        try:
            return _decode_all(b"".join(self._ends))
        except (msgspec.DecodeError, UnicodeDecodeError):
            found = zip(self._ended, self._ends, map(self._understood, self._ends), strict=True)
        good = [row for row in found if row[2]]
        self._ended, self._ends = [row[0] for row in good], [row[1] for row in good]
        return [row[2] for row in good]

    def _understood(self, line: bytes) -> Record | None:
        record = record_of(line)
        if record is None:
            path = next(path for path, lines in self._blocks if line in lines)
            self.bad.append((path, line))
        return record
