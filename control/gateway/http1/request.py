"""One request, as a tenant sent it."""

from control.gateway.http1.heads import Head


class Request:
    """One request. Header names are lower case; the same name twice is joined by a comma."""

    __slots__ = (
        "address",
        "body",
        "head",
        "headers",
        "id",
        "identity",
        "method",
        "path",
        "received_at",
    )

    def __init__(self, id_: str, received_at: float, address: str, head: Head) -> None:
        self.id = id_
        self.received_at = received_at
        self.address = address  # of the client, or of the proxy that it comes through
        self.head = head
        self.method = head.method
        self.path = head.path
        self.headers = head.headers
        self.body = b""
        self.identity: object | None = None  # who the app found to be calling


def path_of(target: bytes) -> str:
    """Without the query; whoever speaks to a proxy sends the whole URI (RFC 9112, 3.2.2)."""
    path = target.partition(b"?")[0].decode("latin-1")
    scheme, colon, rest = path.partition("://")
    if path.startswith("/") or not colon or scheme.lower() not in ("http", "https"):
        return path
    return "/" + rest.partition("/")[2]
