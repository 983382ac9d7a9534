"""The head of an answer, as it goes out."""

from http import HTTPStatus

from control.gateway import errors
from control.gateway.errors import Headers

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
    for status in HTTPStatus
} | {529: b"HTTP/1.1 529 Overloaded\r\n"}  # Anthropic's own


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSES = b"connection: close\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"


def own_headers(id_: str, took_seconds: float, keep_alive: bool) -> bytes:
    """What every answer says."""
    return b"x-request-id: %b\r\nopenai-processing-ms: %d\r\n%b" % (
        id_.encode(),
        took_seconds * 1000,
        b"" if keep_alive else CLOSES,
    )


def whole(status: int, own: bytes, headers: Headers | bytes, length: int) -> bytes:
    return b"%b%bcontent-type: application/json; charset=utf-8\r\n%bcontent-length: %d\r\n\r\n" % (
        _STATUS_LINES[status],
        own,
        headers if type(headers) is bytes else lines(headers),
        length,
    )


def good(headers: bytes) -> bytes:
    """A template of whole answers with 200, as `whole` makes them. Open are the call's id, its
    milliseconds, a line about the connection, more lines, the body's length and the body."""
    own = b"x-request-id: %b\r\nopenai-processing-ms: %d\r\n%b%b"
    fixed = headers.replace(b"%", b"%%")
    return whole(200, own, fixed, 0).replace(b"content-length: 0", b"content-length: %d") + b"%b"


def good_stream(before: bytes, after: bytes) -> bytes:
    """A template of streams' heads with 200, as `streamed` makes them. Open are the call's id, its
    milliseconds, a line about the connection, lines between those two, and how it is framed."""
    own = b"x-request-id: %b\r\nopenai-processing-ms: %d\r\n%b"
    fixed = before.replace(b"%", b"%%") + b"%b" + after.replace(b"%", b"%%")
    return _STATUS_LINES[200] + own + fixed + b"%b"


def streamed(status: int, own: bytes, headers: Headers | bytes, *, chunked: bool) -> bytes:
    written = headers if type(headers) is bytes else lines(headers)
    return _STATUS_LINES[status] + own + written + (CHUNKED if chunked else b"\r\n")


def lines(headers: Headers) -> bytes:
    return b"".join([b"%b: %b\r\n" % pair for pair in headers])


def too_large(what: str, bytes_max: int) -> errors.Refusal:
    refusal = errors.HeadersTooLarge if what == "head" else errors.RequestTooLarge
    return refusal(f"The request's {what} is larger than {bytes_max} bytes.")
