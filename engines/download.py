"""Files over HTTP into a folder: resumed where they broke off, and verified before they count."""

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import httpx

from engines.installs import InstallFailed

ATTEMPTS_MAX = 6  # without a byte of progress; each doubles the pause before it
PAUSE_SECONDS = 1.0
TIMEOUT_SECONDS = 60.0
_BLOCK_BYTES = 1 << 20
_AGAIN = {408, 425, 429, 500, 502, 503, 504}

Say = Callable[[int, str], None]


@dataclass(frozen=True)
class RemoteFile:
    """One file of a source. `headers` are made anew for each request: a signature ages."""

    name: str
    url: str
    size: int | None = None
    sha256: str = ""
    git_sha1: str = ""  # of the blob, as Git counts it: small files have no other
    headers: Callable[[], dict[str, str]] = dict


class _Broken(Exception):
    """This attempt ended early; the next goes on where it stopped."""


@dataclass
class Download:
    """All files of one source, one after the other: a model's are few and large."""

    client: httpx.Client
    folder: Path
    say: Say
    total_bytes: int = 0
    done_bytes: int = 0
    pause_seconds: float = PAUSE_SECONDS

    def fetch(self, files: Iterable[RemoteFile]) -> dict[str, str]:
        """Name → SHA-256 of each file, all of them verified."""
        files = list(files)
        self.total_bytes = sum(file.size or 0 for file in files) or 1
        found = {}
        for file in files:
            found[file.name] = self._one(file)
            self.done_bytes += file.size or 0
        return found

    def _one(self, file: RemoteFile) -> str:
        target, part = self.folder / file.name, self.folder / f"{file.name}.part"
        if target.is_file():
            if why_not(target, file) is None:
                return digest(target)
            target.unlink()
        if not (part.is_file() and file.size is not None and part.stat().st_size == file.size):
            self._load(file, part)
        if wrong := why_not(part, file):
            # Once from the beginning: what was there may be of another attempt, or of a bad disk.
            part.unlink()
            self._load(file, part)
            wrong = why_not(part, file)
        if wrong:
            part.unlink()
            raise InstallFailed(f"{file.name} came damaged: {wrong}")
        part.rename(target)
        return digest(target)

    def _load(self, file: RemoteFile, part: Path) -> None:
        failures = 0
        while True:
            before = _size(part)
            try:
                self._attempt(file, part)
                return
            except (_Broken, httpx.TransportError) as error:
                failures = 1 if _size(part) > before else failures + 1
                if failures >= ATTEMPTS_MAX:
                    raise InstallFailed(
                        f"no network: {file.name} cannot be had from {_host(file.url)} ({error}); "
                        "what came is kept, the next try goes on from there"
                    ) from error
            time.sleep(self.pause_seconds * 2 ** (failures - 1))

    def _attempt(self, file: RemoteFile, part: Path) -> None:
        have = _size(part)
        headers = file.headers() | {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with self.client.stream("GET", file.url, headers=headers) as answer:
            if answer.status_code == 416:  # it is longer than the file: it cannot be of this one
                part.unlink(missing_ok=True)
                raise _Broken("what was there did not fit")
            _check(answer, file)
            # 200 to a range: this server sends all of it again.
            resumed = answer.status_code == 206 and _begins_at(answer) == have
            with part.open("ab" if resumed else "wb") as out:
                # As it comes: a block that is gathered first would be lost with the connection.
                for block in answer.iter_raw():
                    out.write(block)
                    self._tell(file, out.tell())
        if file.size is not None and _size(part) < file.size:
            raise _Broken(f"it ended after {_size(part)} of {file.size} bytes")

    def _tell(self, file: RemoteFile, have: int) -> None:
        done = min(self.total_bytes, self.done_bytes + have)
        of = f" of {file.size / 2**20:.0f}" if file.size else ""
        self.say(
            100 * done // self.total_bytes, f"downloads {file.name} ({have / 2**20:.0f}{of} MiB)"
        )


def why_not(path: Path, file: RemoteFile) -> str | None:
    """What shows that this is not the file, or None."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        return f"{size} bytes, not {file.size}"
    if file.sha256 and digest(path) != file.sha256:
        return "its SHA-256 is not the one that was announced"
    if file.git_sha1 and _git_sha1(path) != file.git_sha1:
        return "its Git hash is not the one that was announced"
    return None


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _git_sha1(path: Path) -> str:
    found = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            found.update(block)
    return found.hexdigest()


def ask(client: httpx.Client, url: str, what: str, headers: dict[str, str] | None = None) -> bytes:
    """A small answer in memory, such as a listing; InstallFailed says what could not be had."""
    try:
        answer = client.get(url, headers=headers or {})
    except httpx.TransportError as error:
        raise InstallFailed(
            f"no network: {_host(url)} cannot be reached ({error}); connect this host, name a "
            "mirror, or take the weights from a folder on the node: source {path: …}"
        ) from error
    if answer.status_code != 200:
        raise _refused(answer, what)
    return answer.content


def _check(answer: httpx.Response, file: RemoteFile) -> None:
    if answer.status_code in (200, 206):
        return
    if answer.status_code in _AGAIN:
        raise _Broken(f"it answers {answer.status_code}")
    raise _refused(answer, file.name)


def _refused(answer: httpx.Response, what: str) -> InstallFailed:
    hint = {401: " (it wants a token)", 403: " (its token may not)", 404: " (not there)"}
    code = answer.status_code
    return InstallFailed(f"{_host(str(answer.url))} refuses {what}: {code}{hint.get(code, '')}")


def _begins_at(answer: httpx.Response) -> int:
    begin = answer.headers.get("content-range", "").removeprefix("bytes ").partition("-")[0]
    return int(begin) if begin.isdecimal() else -1


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _host(url: str) -> str:
    return httpx.URL(url).host
