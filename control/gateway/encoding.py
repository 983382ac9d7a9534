"""Compressed request bodies, decoded within a limit."""

import zlib

from control.gateway import errors
from control.gateway.http1.request import Request

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
    decoder = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        data = decoder.decompress(raw, bytes_max + 1)
    except zlib.error:
        raise errors.BadRequest(f"The body is not valid {encoding}.") from None
    if len(data) > bytes_max:
        raise errors.RequestTooLarge(f"The decoded body is larger than {bytes_max} bytes.")
    if not decoder.eof or decoder.unused_data:
        raise errors.BadRequest(f"The body is not one whole {encoding} stream.")
    return data
