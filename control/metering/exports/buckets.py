"""A file into a bucket (S3): in one piece, or in parts and seen when all of them are there."""

import hashlib
import html
import io
import logging
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import BinaryIO
from urllib.parse import quote

import httpx
from django.utils import timezone

from engines.stores import s3
from engines.stores.access import Access, from_environment

PART_BYTES = 64 * 2**20  # all but the last are of one size: some stores want them so
PARTS_MAX = 10_000  # 625 GiB
TRIES_MAX = 3  # of one request: a part that fails does not fail the hundred before it
SECONDS_MAX = 600  # of one request
READ_BYTES = 2**20
ANSWER_CHARACTERS_MAX = 200

log = logging.getLogger(__name__)


class NotTaken(Exception):
    """The bucket refused, or the file is more than it takes."""


def put(path: str, chunks: Iterable[bytes]) -> None:
    """`path` is bucket/folder/name. What is on disk meanwhile is one part."""
    with tempfile.TemporaryFile() as file, httpx.Client(timeout=SECONDS_MAX) as client:
        bucket = _Bucket(client, from_environment(), path)
        upload = ""
        try:
            tags: list[str] = []
            for is_last, part in _parts(chunks, file):
                if is_last and not tags:
                    bucket.ask("PUT", {}, part)
                    return
                upload = upload or bucket.begin()
                if len(tags) == PARTS_MAX:
                    raise NotTaken(f"{path} is more than {PARTS_MAX} parts: export less at a time")
                number = {"partNumber": str(len(tags) + 1), "uploadId": upload}
                tags.append(bucket.ask("PUT", number, part).headers.get("etag", ""))
            bucket.complete(upload, tags)
        except BaseException:
            if upload:
                bucket.abort(upload)
            raise


@dataclass
class Part:
    """What is in the file now."""

    file: BinaryIO
    size: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def add(self, data: memoryview) -> None:
        self.file.write(data)
        self.digest.update(data)
        self.size += len(data)

    def read(self) -> Iterator[bytes]:
        self.file.seek(0)
        while block := self.file.read(READ_BYTES):
            yield block


def _parts(chunks: Iterable[bytes], file: BinaryIO) -> Iterator[tuple[bool, Part]]:
    """(is it the last one, the part), each good until the next is asked for; one at least."""
    part = Part(file)
    for chunk in chunks:
        left = memoryview(chunk)
        while left:
            if part.size == PART_BYTES:
                yield False, part
                file.seek(0)
                file.truncate()
                part = Part(file)
            room = PART_BYTES - part.size
            part.add(left[:room])
            left = left[room:]
    yield True, part


def _in_memory(text: str) -> Part:
    part = Part(io.BytesIO())
    part.add(memoryview(text.encode()))
    return part


@dataclass(frozen=True)
class _Bucket:
    client: httpx.Client
    access: Access
    path: str

    @property
    def base(self) -> str:
        return self.access.s3 or f"https://s3.{self.access.s3_region}.amazonaws.com"

    def begin(self) -> str:
        answer = self.ask("POST", {"uploads": ""}, _in_memory(""))
        found = re.search(r"<UploadId>([^<]+)</UploadId>", answer.text)
        if found is None:
            raise NotTaken(f"{self.base} takes no parts of {self.path}: {_short(answer)}")
        return html.unescape(found[1])

    def complete(self, upload: str, tags: list[str]) -> None:
        """A bucket may find only now that it cannot, after it has said 200."""
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{html.escape(tag)}</ETag></Part>"
            for number, tag in enumerate(tags, 1)
        )
        whole = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"
        answer = self.ask("POST", {"uploadId": upload}, _in_memory(whole))
        if "<Error>" in answer.text:
            raise NotTaken(f"{self.base} refused {self.path}: {_short(answer)}")

    def abort(self, upload: str) -> None:
        """Parts that nobody completes are paid for; what cannot be aborted is told."""
        try:
            self.ask("DELETE", {"uploadId": upload}, _in_memory(""))
        except (httpx.HTTPError, NotTaken) as error:
            log.warning("parts of %s stay in their bucket: %s", self.path, error)

    def ask(self, method: str, query: dict[str, str], part: Part) -> httpx.Response:
        for left in reversed(range(TRIES_MAX)):
            try:
                answer = self._ask_once(method, query, part)
            except httpx.TransportError:
                if not left:
                    raise
                continue
            if answer.status_code < 300:
                return answer
            if answer.status_code < 500 or not left:
                break
        raise NotTaken(f"{self.base} refused {self.path}: {answer.status_code} {_short(answer)}")

    def _ask_once(self, method: str, query: dict[str, str], part: Part) -> httpx.Response:
        url = f"{self.base}/{quote(self.path)}"
        url += f"?{s3.query_of(query)}" if query else ""
        headers = {"content-length": str(part.size)}
        if self.access.s3_key_id:
            headers |= s3.signed(method, url, self.access, _now(), part.digest.hexdigest())
        return self.client.request(method, url, content=part.read(), headers=headers)


def _short(answer: httpx.Response) -> str:
    return answer.text[:ANSWER_CHARACTERS_MAX]


def _now() -> datetime:
    """A signature holds for a quarter of an hour, however long the file took to make."""
    return timezone.now()
