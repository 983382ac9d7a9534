"""Where files go: a folder of this host, or a bucket. Never half a file under its own name."""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
from django.utils import timezone

from control import checks
from engines.stores import access, s3

SECONDS_MAX = 600
BYTES_MAX = 5 * 2**30  # what a bucket takes in one piece
READ_BYTES = 2**20
SCHEMES = ("file", "s3")


class NotTaken(Exception):
    """The bucket refused, or the file is more than it takes."""


def problems(destination: str) -> list[checks.Problem]:
    parts = urlsplit(destination)
    if parts.scheme not in SCHEMES or len(destination) > 400:
        what = f"{destination!r} is no place: write file:///folder or s3://bucket/folder"
        return [checks.Problem("destination", what)]
    is_folder = parts.scheme == "file"
    if (is_folder and (parts.netloc or not parts.path.startswith("/"))) or ".." in parts.path:
        return [checks.Problem("destination", "is no absolute folder, as in file:///var/exports")]
    if not is_folder and not parts.netloc:
        return [checks.Problem("destination", "names no bucket, as in s3://bucket/folder")]
    return []


def put(destination: str, name: str, chunks: Iterable[bytes]) -> str:
    """Where the file is now."""
    parts = urlsplit(destination)
    if parts.scheme == "file":
        return _to_folder(Path(parts.path), name, chunks)
    return _to_bucket(f"{parts.netloc}{parts.path}".rstrip("/"), name, chunks)


def _to_folder(folder: Path, name: str, chunks: Iterable[bytes]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{name}.", delete=False) as file:
        try:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o640)
            os.replace(file.name, folder / name)
        except BaseException:
            os.unlink(file.name)
            raise
    return str(folder / name)


def _to_bucket(place: str, name: str, chunks: Iterable[bytes]) -> str:
    """A bucket shows a file when it has all of it; its length and sum are known before."""
    with tempfile.TemporaryFile() as file:
        digest, size = hashlib.sha256(), 0
        for chunk in chunks:
            size += len(chunk)
            if size > BYTES_MAX:
                raise NotTaken(f"{name} is more than {BYTES_MAX} bytes: export a tenant at a time")
            digest.update(chunk)
            file.write(chunk)
        file.seek(0)
        _send(f"{place}/{name}", file, size, digest.hexdigest())
    return f"s3://{place}/{name}"


def _send(path: str, file, size: int, sha256: str) -> None:
    known = access.from_environment()
    base = known.s3 or f"https://s3.{known.s3_region}.amazonaws.com"
    url = f"{base}/{quote(path)}"
    headers = {"content-length": str(size)}
    if known.s3_key_id:
        headers |= s3.signed("PUT", url, known, _now(), sha256)
    answer = httpx.put(url, content=_read(file), headers=headers, timeout=SECONDS_MAX)
    if answer.status_code >= 300:
        raise NotTaken(f"{base} refused {path}: {answer.status_code} {answer.text[:200]}")


def _now() -> datetime:
    """A signature holds for a quarter of an hour, however long the file took to make."""
    return timezone.now()


def _read(file) -> Iterator[bytes]:
    while block := file.read(READ_BYTES):
        yield block
