"""A store on this machine: files by path, ranges, and failures in their order."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class Store:
    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, range
    headers: list[dict[str, str]] = field(default_factory=list)
    cut_after: list[int] = field(default_factory=list)  # bytes of the next answers to GET
    answers: list[int] = field(default_factory=list)  # codes of the next ones
    ranges: bool = True


class Handler(BaseHTTPRequestHandler):
    store: Store

    def do_HEAD(self) -> None:  # noqa: N802  the library's name
        self._answer(body=False)

    def do_GET(self) -> None:  # noqa: N802  the library's name
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        store, asked = self.store, self.headers.get("Range", "")
        store.asked.append((self.command, self.path, asked))
        store.headers.append({name.lower(): value for name, value in self.headers.items()})
        content = store.files.get(self.path)
        code = store.answers.pop(0) if store.answers else 404 if content is None else 200
        begin = 0
        if code == 200 and asked and store.ranges:
            begin = int(asked.removeprefix("bytes=").rstrip("-"))
            code = 206 if begin < len(content) else 416
        self._send(code, content if code < 400 else b"", begin, body=body)

    def _send(self, code: int, content: bytes, begin: int, *, body: bool) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(max(0, len(content) - begin)))
        if code == 206:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("Connection", "close")
        self.end_headers()
        if body and code < 400:
            cut = self.store.cut_after.pop(0) if self.store.cut_after else len(content)
            self.wfile.write(content[begin : begin + cut])
        self.close_connection = True

    def log_message(self, *args) -> None:
        pass


@contextmanager
def serving() -> Iterator[Store]:
    store = Store()
    handler = type("OfThisStore", (Handler,), {"store": store})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    store.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()
