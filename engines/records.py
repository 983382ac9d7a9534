"""The record of a launch on disk: which process its engine is, whether it runs or not."""

import json
from functools import lru_cache
from pathlib import Path

from engines.spec import EngineRecord

RECORD = "engine.json"
RECORDS_KEPT_MAX = 256


def read_record(folder: Path) -> EngineRecord | None:
    """Of the launch made here."""
    path = folder / RECORD
    try:
        written = path.stat()
        return _record(path, written.st_ino, written.st_mtime_ns)
    except FileNotFoundError:
        return None


@lru_cache(RECORDS_KEPT_MAX)
def _record(path: Path, _inode: int, _written_ns: int) -> EngineRecord | None:
    """Read once, for it is asked for each second: it is written whole, and another is another
    file."""
    try:
        return EngineRecord(**json.loads(path.read_text()))
    except (ValueError, TypeError):
        return None
