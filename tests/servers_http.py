"""A server that gives scripted answers and remembers what it was asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class Scripted:
    def __init__(self, url: str) -> None:
        self.url = url
        self.headers: list = []


@contextmanager
def answering(script: list[tuple[int, str]]) -> Iterator[Scripted]:
    """One (status, body) for each GET, in order; the last one again and again."""
    left = list(script)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.headers.append(self.headers)
            status, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told = Scripted(f"http://127.0.0.1:{server.server_port}/notice")
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
