"""Where a request's body ends must be read alike by everybody: what might not be is refused."""

from control.gateway import errors

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


def unframed(whole_chunks: bytes) -> bytes:
    """What is in chunks of HTTP, where no line ends in CRLF inside."""
    return b"".join(whole_chunks.split(b"\r\n")[1::2])
