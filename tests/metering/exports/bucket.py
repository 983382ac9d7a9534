"""A small S3: takes what is signed and whole, in one piece or in parts, and can be told to fail."""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from urllib.parse import parse_qs, urlsplit

from engines.stores import s3


class Bucket(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:  # noqa: N802 - as the library calls it
        body = self.taken()
        if body is None:
            return
        if not self.query:
            self.server.files[self.where] = body
            self.answer(200)
            return
        parts = self.server.uploads.get(self.query["uploadId"][0])
        if parts is None:
            self.answer(404, "<Error><Code>NoSuchUpload</Code></Error>")
            return
        parts[int(self.query["partNumber"][0])] = body
        self.answer(200, tag=_tag(body))

    def do_POST(self) -> None:  # noqa: N802
        body = self.taken()
        if body is None:
            return
        if "uploads" in self.query:
            upload = f"up/{next(self.server.numbers)}&=+"
            self.server.uploads[upload] = {}
            told = upload.replace("&", "&amp;")
            self.answer(200, f"<R><UploadId>{told}</UploadId></R>")
            return
        self.complete(body.decode())

    def complete(self, wanted: str) -> None:
        parts = self.server.uploads.pop(self.query["uploadId"][0])
        told = re.findall(r"<PartNumber>(\d+)</PartNumber><ETag>&quot;(\w+)&quot;</ETag>", wanted)
        have = [(str(number), _tag(parts[number]).strip('"')) for number in sorted(parts)]
        if self.server.spoils or told != have:
            self.answer(200, "<Error><Code>InternalError</Code></Error>")
            return
        self.server.sizes = [len(parts[number]) for number in sorted(parts)]
        self.server.files[self.where] = b"".join(parts[number] for number in sorted(parts))
        self.answer(200, "<CompleteMultipartUploadResult/>")

    def do_DELETE(self) -> None:  # noqa: N802
        if self.taken() is not None:
            self.server.uploads.pop(self.query["uploadId"][0], None)
            self.answer(204)

    def taken(self) -> bytes | None:
        """The body, if its signature and its sum are right and nothing else was asked of us."""
        body = self.rfile.read(int(self.headers["content-length"]))
        url = f"http://{self.headers['host']}{self.path}"
        at = datetime.strptime(self.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        digest = hashlib.sha256(body).hexdigest()
        signed = s3.signed(self.command, url, self.server.access, at, digest)
        parts = urlsplit(self.path)
        self.where, self.query = parts.path, parse_qs(parts.query, keep_blank_values=True)
        self.server.asked.append(f"{self.command} {','.join(sorted(self.query))}".strip())
        if signed["authorization"] != self.headers["authorization"]:
            self.answer(403, "<Error><Code>SignatureDoesNotMatch</Code></Error>")
            return None
        if self.server.statuses and (status := self.server.statuses.pop(0)) != 200:
            self.answer(status)
            return None
        return body

    def answer(self, status: int, body: str = "", tag: str = "") -> None:
        self.send_response(status)
        if tag:
            self.send_header("etag", tag)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


def _tag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


@contextmanager
def running() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    server.files, server.uploads, server.asked, server.statuses = {}, {}, [], []
    server.sizes, server.spoils, server.numbers = [], False, count(1)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join(30)
    server.server_close()
