"""One request, as a tenant sent it."""


class Request:
    """One request. Header names are lower case; the same name twice is joined by a comma."""

    __slots__ = (
        "address",
        "body",
        "headers",
        "id",
        "identity",
        "method",
        "path",
        "received_at",
        "target",
    )

    def __init__(self, id_: str, received_at: float, address: str) -> None:
        self.id = id_
        self.received_at = received_at
        self.address = address  # of the client, or of the proxy that it comes through
        self.method = ""
        self.target = b""
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.path = ""  # without the query
        self.identity: object | None = None  # who the app found to be calling


def path_of(target: bytes) -> str:
    """Without the query; whoever speaks to a proxy sends the whole URI (RFC 9112, 3.2.2)."""
    path = target.partition(b"?")[0].decode("latin-1")
    scheme, colon, rest = path.partition("://")
    if path.startswith("/") or not colon or scheme.lower() not in ("http", "https"):
        return path
    return "/" + rest.partition("/")[2]
