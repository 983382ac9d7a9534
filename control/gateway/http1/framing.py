"""Where a request's body ends must be read alike by everybody: what might not be is refused."""

from control.gateway import errors
from control.gateway.http1.answers import too_large
from control.gateway.http1.heads import Head
from control.gateway.limits import Limits

ONE_AT_A_TIME = "HTTP pipelining is not supported: wait for an answer, then send again."
_SPOKEN = "1.1"


def judge_framing(version: str, headers: dict[bytes, bytes]) -> None:
    """The parser takes versions as they come, and codings before the last that nobody undoes."""
    if version not in (_SPOKEN, "1.0"):
        raise errors.BadRequest("HTTP/1.1 is spoken here: 'METHOD /path HTTP/1.1'.")
    if version == _SPOKEN and b"host" not in headers:
        raise errors.BadRequest("A request in HTTP/1.1 names its 'Host'.")
    coding = headers.get(b"transfer-encoding")
    if coding is None:
        return
    if version != _SPOKEN or coding.lower() != b"chunked":
        raise errors.UnsupportedEncoding("Of transfer codings only 'chunked' is understood.")


def judge_size(head: Head, bytes_max: int) -> None:
    """Of the head alone, once what was received is more: a body may be part of it."""
    size = len(head.target) + sum([len(k) + len(v) + 4 for k, v in head.headers.items()])
    if size > bytes_max:
        raise too_large("head", bytes_max)


def is_slow(body_bytes: int, seconds: float, limits: Limits) -> bool:
    """Of a body that is still coming."""
    return seconds > limits.body_grace_seconds and (
        body_bytes < seconds * limits.body_bytes_per_second
    )


def framed(data: bytes, chunked: bool) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if chunked else data


def ending(data: bytes, chunked: bool) -> bytes:
    """The last of a body, which may have gone out already."""
    if chunked:
        return b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
    return data


def unframed(whole_chunks: bytes) -> bytes:
    """What is in chunks of HTTP, where no line ends in CRLF inside."""
    return b"".join(whole_chunks.split(b"\r\n")[1::2])
