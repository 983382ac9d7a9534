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
            _make(home, path)
        return path.read_bytes()
    except OSError as error:
        sys.exit(
            f"cannot use {home}: {error.filename}: {error.strerror}; choose another WEIR_HOME, "
            "or be the account that Weir runs as"
        )


def _make(home: Path, path: Path) -> None:
    """Several processes may be first at once: one makes it, and none ever reads half of it."""
    lock = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            making = path.with_suffix(".making")
            making.unlink(missing_ok=True)
            making.touch(mode=0o600)
            making.write_text(secrets.token_urlsafe(48))
            making.rename(path)
    finally:
        os.close(lock)
