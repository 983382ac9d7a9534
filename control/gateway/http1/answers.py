"""The head of an answer, as it goes out."""

from http import HTTPStatus

from control.gateway import errors
from control.gateway.errors import Headers

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
    for status in HTTPStatus
} | {529: b"HTTP/1.1 529 Overloaded\r\n"}  # Anthropic's own


def own_headers(id_: str, took_seconds: float, keep_alive: bool) -> bytes:
    """What every answer says."""
    return b"x-request-id: %b\r\nopenai-processing-ms: %d\r\n%b" % (
        id_.encode(),
        took_seconds * 1000,
        b"" if keep_alive else b"connection: close\r\n",
    )


def whole(status: int, own: bytes, headers: Headers, length: int) -> bytes:
    return b"%b%bcontent-type: application/json; charset=utf-8\r\n%bcontent-length: %d\r\n\r\n" % (
        _STATUS_LINES[status],
        own,
        b"".join([b"%b: %b\r\n" % pair for pair in headers]),
        length,
    )


def streamed(status: int, own: bytes, headers: Headers, *, chunked: bool) -> bytes:
    framing = b"transfer-encoding: chunked\r\n\r\n" if chunked else b"\r\n"
    return _STATUS_LINES[status] + own + lines(headers) + framing


def lines(headers: Headers) -> bytes:
    return b"".join([b"%b: %b\r\n" % pair for pair in headers])


def too_large(what: str, bytes_max: int) -> errors.Refusal:
    refusal = errors.HeadersTooLarge if what == "head" else errors.RequestTooLarge
    return refusal(f"The request's {what} is larger than {bytes_max} bytes.")
