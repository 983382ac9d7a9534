"""Where files go: a folder of this host, or a bucket. Never half a file under its own name."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from control.metering.exports import buckets


def put(destination: str, name: str, chunks: Iterable[bytes]) -> str:
    """Where the file is now."""
    parts = urlsplit(destination)
    if parts.scheme == "file":
        return _to_folder(Path(parts.path), name, chunks)
    place = f"{parts.netloc}{parts.path}".rstrip("/")
    buckets.put(f"{place}/{name}", chunks)
    return f"s3://{place}/{name}"


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
