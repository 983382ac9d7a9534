"""A node's cache of weights: which launches use what, and what gives way when it is full."""

import fcntl
import json
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MANIFEST = "weir.json"
ABANDONED_SECONDS = 7 * 24 * 3600  # half-fetched weights that nobody went on with
_HOLDS = ".holds"


@dataclass(frozen=True)
class Cached:
    """One folder of the cache; `held` while a live replica uses it."""

    key: str
    size_bytes: int
    used_at: float
    held: bool = False


@dataclass(frozen=True)
class Evict:
    """What gives way, the longest unused first; nothing where there is room."""

    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoRoom:
    reason: str


def choose(cached: Collection[Cached], needed_bytes: int, limit_bytes: int) -> Evict | NoRoom:
    """What to remove so that `needed_bytes` fit below the limit; 0 is no limit (pure)."""
    excess = sum(one.size_bytes for one in cached) + needed_bytes - limit_bytes
    if not limit_bytes or excess <= 0:
        return Evict()
    keys = []
    for one in sorted(cached, key=lambda one: (one.used_at, one.key)):
        if excess <= 0:
            break
        if not one.held:
            keys.append(one.key)
            excess -= one.size_bytes
    if excess <= 0:
        return Evict(tuple(keys))
    held = sum(one.size_bytes for one in cached if one.held)
    return NoRoom(
        f"needs {_gib(needed_bytes)}, the cache of weights may hold {_gib(limit_bytes)} and live "
        f"replicas use {_gib(held)} of it: raise WEIR_WEIGHTS_GIB, or move a replica away"
    )


def make_room(root: Path, needed_bytes: int, limit_bytes: int, *, keep: str = "") -> Evict | NoRoom:
    """Remove what gives way, except `keep`; refuse, and remove nothing, if that is not enough."""
    with _locked(root):
        found = [one for one in cached(root) if one.key != keep]
        choice = choose(found, needed_bytes, limit_bytes)
        if isinstance(choice, Evict):
            for key in choice.keys:
                # Out of sight in one step: a half removed folder would look like a damaged one.
                gone = root / f"{key}.removed"
                (root / key).rename(gone)
                shutil.rmtree(gone, ignore_errors=True)
                shutil.rmtree(root / _HOLDS / key, ignore_errors=True)
        return choice


def cached(root: Path) -> list[Cached]:
    return [
        Cached(
            folder.name,
            _size(folder),
            _used_at(root, folder.name),
            bool(holders(root, folder.name)),
        )
        for folder in sorted(root.glob("*"))
        if (folder / MANIFEST).is_file()
    ]


def source_of(root: Path, key: str) -> dict:
    try:
        return json.loads((root / key / MANIFEST).read_text())["source"]
    except (OSError, ValueError, KeyError):
        return {}


def hold(root: Path, key: str, holder: str) -> bool:
    """Say that a replica uses these weights; False if they have just given way to others."""
    with _locked(root):
        if not (root / key / MANIFEST).is_file():
            return False
        folder = root / _HOLDS / key
        folder.mkdir(parents=True, exist_ok=True)
        (folder / holder).touch()
    return True


def release(root: Path, holder: str) -> None:
    for path in root.glob(f"{_HOLDS}/*/{holder}"):
        path.unlink(missing_ok=True)
        path.parent.touch()  # used until now


def release_others(root: Path, living: Collection[str]) -> None:
    """Of replicas that ended without a word."""
    for path in root.glob(f"{_HOLDS}/*/*"):
        if path.name not in living:
            release(root, path.name)


def holders(root: Path, key: str) -> list[str]:
    return sorted(path.name for path in root.glob(f"{_HOLDS}/{key}/*"))


def discard(root: Path, key: str) -> bool:
    """Remove what is damaged, also under a replica that holds it: it is fetched anew for all."""
    with _locked(root):
        if not (root / key / MANIFEST).is_file():
            return False
        gone = root / f"{key}.removed"
        shutil.rmtree(gone, ignore_errors=True)
        (root / key).rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        return True


def sweep(root: Path) -> None:
    """What was half removed, and what was half fetched long ago."""
    with _locked(root):
        for gone in root.glob("*.removed"):
            shutil.rmtree(gone, ignore_errors=True)
        for partial in root.glob("*.partial"):
            newest = max(
                (path.stat().st_mtime for path in (partial, *partial.iterdir())), default=0
            )
            if time.time() - newest > ABANDONED_SECONDS:
                shutil.rmtree(partial, ignore_errors=True)


def _used_at(root: Path, key: str) -> float:
    folder = root / _HOLDS / key
    return (folder if folder.exists() else root / key / MANIFEST).stat().st_mtime


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".cache.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
