"""Knowing a request's head again: a client sends the same one with each, but for the length."""

import re

_LENGTH = re.compile(rb"\r\ncontent-length: ?(\d{1,9})\r\n", re.IGNORECASE)
_HEAD_BYTES_MAX = 4096  # kept for as long as the connection is


class Head:
    """Method, path and headers. Names are lower case; the same name twice is joined by a comma."""

    __slots__ = ("cleared", "headers", "is_plain", "kept", "method", "path", "target")

    def __init__(self) -> None:
        self.method = ""
        self.target = b""
        self.path = ""  # without the query
        self.headers: dict[bytes, bytes] = {}
        self.is_plain = False  # the app found nothing in the headers that it must heed each time
        self.kept: str | None = None  # what the app has made of it, to have it next time
        self.cleared: tuple | None = None  # whom the app let in by it, and by what it knew


class Known:
    """A head that was read before, with its text less the digits of the length."""

    __slots__ = ("_at", "_hash", "_rest_bytes", "_text", "head")

    def __init__(self, text: bytes, at: int, head: Head) -> None:
        self.head = head
        self._text = text
        self._hash = hash(text)
        self._at = at
        self._rest_bytes = len(text) - at

    def body_of(self, data: bytes) -> bytes | None:
        """The body of a whole request with this head; None for all else, however near to it."""
        at = self._at
        stop = data.find(b"\r", at, at + 10)
        if stop <= at:
            return None
        begin = stop + self._rest_bytes
        text = data[:at] + data[stop:begin]
        # By hash first: how long a comparison takes says nothing then of another's key, where
        # a proxy sends requests of several tenants through one connection.
        if hash(text) != self._hash or text != self._text:
            return None
        length = data[at:stop]
        if not length.isdigit() or len(data) - begin != int(length):
            return None
        return data[begin:]


def known(data: bytes, head: Head) -> Known | None:
    """`data` is a whole request that was read as `head`; None if its like is read anew."""
    begin = data.find(b"\r\n\r\n") + 4
    found = _LENGTH.search(data, 0, begin)
    if begin > _HEAD_BYTES_MAX or found is None or found[1] != head.headers.get(b"content-length"):
        return None
    if len(data) - begin != int(found[1]) or data[:begin].lower().count(b"content-length") != 1:
        return None
    return Known(data[: found.start(1)] + data[found.end(1) : begin], found.start(1), head)
