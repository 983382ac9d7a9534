"""Compressed request bodies, decoded within a limit."""

import zlib

from control.gateway import errors

_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


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
