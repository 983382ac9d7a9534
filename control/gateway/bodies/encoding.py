"""Compressed request bodies, decoded within a limit."""

import zlib
from collections.abc import Iterator

from control.gateway import errors
from control.gateway.http1.request import Request

_READ_BYTES = 64 * 1024
_PART_BYTES = 1024 * 1024
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def judge_head(request: Request) -> None:
    given = request.headers.get(b"content-type", b"application/json").lower()
    if not given.startswith(b"application/json"):
        raise errors.UnsupportedEncoding("Send the body as 'Content-Type: application/json'.")
    if given := _named(request):
        judge(given)


def body_of(request: Request, bytes_max: int) -> bytes:
    given = _named(request)
    return decompress(request.body, given, bytes_max=bytes_max) if given else request.body


def _named(request: Request) -> str:
    raw = request.headers.get(b"content-encoding")
    if raw is None:
        return ""
    given = raw.decode("latin-1").strip().lower()
    return "" if given == "identity" else given


def judge(encoding: str) -> None:
    if encoding not in _WINDOW_BITS:
        raise errors.UnsupportedEncoding(
            f"Content-Encoding '{encoding[:32]}' is not supported: use gzip, deflate or none."
        )


def decompress(raw: bytes, encoding: str, *, bytes_max: int) -> bytes:
    """Decode a request body; a bomb is refused before it unfolds."""
    parts, size = [], 0
    try:
        for part in _unfolded(raw, encoding):
            size += len(part)
            if size > bytes_max:
                raise errors.RequestTooLarge(f"The decoded body is larger than {bytes_max} bytes.")
            parts.append(part)
    except zlib.error:
        raise errors.BadRequest(f"The body is not valid {encoding}.") from None
    except EOFError:
        raise errors.BadRequest(f"The body is not one whole {encoding} stream.") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unfolded(raw: bytes, encoding: str) -> Iterator[bytes]:
    """In parts: as a whole it would stand in memory twice, and what is left of it with each part.

    EOFError is for a stream that is not whole, or not alone.
    """
    decoder = zlib.decompressobj(_WINDOW_BITS[encoding])
    for start in range(0, len(raw), _READ_BYTES):
        given, part = raw[start : start + _READ_BYTES], b""
        while given or len(part) == _PART_BYTES:
            if decoder.eof:
                raise EOFError
            part = decoder.decompress(given, _PART_BYTES)
            yield part
            given = decoder.unconsumed_tail or decoder.unused_data
    if not decoder.eof:
        raise EOFError
