"""The secret under which keys are stored: made once, and never read half."""

import fcntl
import os
import secrets
import sys
from pathlib import Path


def own_secret(home: Path, given: str) -> bytes:
    """WEIR_SECRET, or one made once in the home (0600); every host of a platform has the same."""
    if given:
        return given.encode()
    path = home / "secret"
    try:
        if not path.exists():
            home.mkdir(parents=True, exist_ok=True)
        return made_once(path, 48).encode()
    except OSError as error:
        sys.exit(
            f"cannot use {home}: {error.filename}: {error.strerror}; choose another WEIR_HOME, "
            "or be the account that Weir runs as"
        )


def made_once(path: Path, random_bytes: int) -> str:
    """Several processes may be first at once: one makes it (0600), and none ever reads a half."""
    if not path.exists():
        _make(path, random_bytes)
    return path.read_text()


def _make(path: Path, random_bytes: int) -> None:
    lock = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            making = path.with_name(f"{path.name}.making")
            making.unlink(missing_ok=True)
            making.touch(mode=0o600)
            making.write_text(secrets.token_urlsafe(random_bytes))
            making.rename(path)
    finally:
        os.close(lock)
