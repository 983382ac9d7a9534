"""The rest of a request that asked for another protocol: it is answered in HTTP/1.1."""

from typing import Protocol

import httptools


class Reading(Protocol):
    state: str

    def on_body(self, body: bytes) -> None: ...

    def on_body_complete(self) -> None: ...


def rest_of(reading: Reading, headers: dict[bytes, bytes]) -> httptools.HttpRequestParser:
    """The parser stops behind the head of an upgrade; this one reads the body, and no more."""
    parser = httptools.HttpRequestParser(_Body(reading))
    length = b"content-length: " + headers.get(b"content-length", b"0")
    coding = headers.get(b"transfer-encoding")
    framing = b"transfer-encoding: " + coding if coding else length
    parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n")
    return parser


class _Body:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def on_body(self, body: bytes) -> None:
        if self._reading.state == "body":
            self._reading.on_body(body)

    def on_message_complete(self) -> None:
        if self._reading.state == "body":
            self._reading.on_body_complete()
