"""Server-sent events from a byte stream: a read is not an event, a line ends at LF, CR or CRLF."""

import re

import msgspec

# Atomic groups: CRLF must never be read as two line ends.
_END_OF_EVENT = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_END_OF_LINE = re.compile(rb"(?>\r\n|\n|\r)")
_BOM = b"\xef\xbb\xbf"


class Event(msgspec.Struct, frozen=True, gc=False):
    raw: bytes  # as it came, with its line ends
    data: bytes | None  # the data lines joined by LF; None for comments and other fields
    start: int  # where `data` begins in `raw`; -1 if it is not one piece there


class TooLong(Exception):
    """One event is larger than a stream may hold."""


class Splitter:
    _rest = b""
    _begun = False

    def __init__(self, event_bytes_max: int) -> None:
        self._event_bytes_max = event_bytes_max

    @property
    def is_between(self) -> bool:
        """Nothing of an event is held: the next byte begins one."""
        return self._begun and not self._rest

    @property
    def holds_nothing(self) -> bool:
        """The next byte begins an event, or the stream."""
        return not self._rest

    def skip(self) -> None:
        """Whole events have been read by somebody else."""
        self._begun = True

    def feed(self, data: bytes) -> list[Event]:
        rest = self._rest
        if not self._begun:
            rest, data = b"", rest + data
            if _BOM.startswith(data[:3]) and len(data) < 3:
                self._rest = data
                return []
            self._begun = True
            data = data.removeprefix(_BOM)
        return self._split(rest + data if rest else data, max(len(rest) - 3, 0))

    def finish(self) -> list[Event]:
        """What is left when the stream ends without its last empty line."""
        rest, self._rest = self._rest, b""
        return [_event(rest)] if rest.strip() else []

    def _split(self, data: bytes, search_from: int) -> list[Event]:
        if not self._rest and data.endswith(b"\n\n") and b"\r" not in data:
            # Whole events, as nearly all reads are: no search for the kinds of line ends.
            if data.startswith(b"data: ") and data.find(b"\n") == len(data) - 2:
                return [Event(data, data[6:-2], 6)]
            return [
                Event(part + b"\n\n", part[6:], 6)
                if part.startswith(b"data: ") and b"\n" not in part
                else _event(part + b"\n\n")
                for part in data[:-2].split(b"\n\n")
            ]
        events = []
        begin = 0
        while found := _END_OF_EVENT.search(data, search_from):
            search_from = found.end()
            events.append(_event(data[begin:search_from]))
            begin = search_from
        self._rest = data[begin:] if begin else data
        if len(self._rest) > self._event_bytes_max:
            raise TooLong
        return events


def _event(raw: bytes) -> Event:
    # Nearly all events are one line `data: …` and need no splitting into lines.
    if raw.startswith(b"data: ") and raw.endswith(b"\n\n"):
        data = raw[6:-2]
        if b"\n" not in data and b"\r" not in data:
            return Event(raw, data, 6)
    lines = [
        line[5:].removeprefix(b" ")
        for line in _END_OF_LINE.split(raw)
        if line.startswith(b"data:") or line == b"data"
    ]
    if not lines:
        return Event(raw, None, -1)
    data = b"\n".join(lines)
    return Event(raw, data, raw.find(data) if len(lines) == 1 else -1)


def event_of(data: bytes) -> bytes:
    """An event of our own making; a line break inside becomes a data line of its own."""
    return b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"
