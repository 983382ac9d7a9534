"""`/metrics` of one gateway, for whoever scrapes it from the same host."""

import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

log = logging.getLogger(__name__)


def serve(port: int, text: Callable[[], str]) -> ThreadingHTTPServer | None:
    """Loopback only. Port 0 means that nobody asked for it."""
    if not port:
        return None
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(text))
    except OSError as error:
        log.error("no /metrics on port %d: %s", port, error)
        return None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


def _handler(text: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Metrics(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:  # noqa: N802 - the name that the standard library calls
            if self.path != "/metrics":
                return self.send_error(404)
            body = text().encode()
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return None

        def log_message(self, *args: object) -> None:
            """Scrapes are not worth a line."""

    return Metrics
