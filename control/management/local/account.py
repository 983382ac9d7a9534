"""The account that the embedded servers run as: PostgreSQL refuses root."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

CANDIDATES = ("weir", "nobody")
ANSWER_SECONDS_MAX = 10


class NoAccount(Exception):
    """Started as root, and no unprivileged account to drop to."""


@dataclass(frozen=True)
class Account:
    """The account that servers run as; `uid` None: the one that Weir was started by."""

    name: str = ""
    uid: int | None = None
    gid: int | None = None

    def drop(self) -> dict:
        """Arguments of subprocess.Popen that give up root for good, groups included."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        if self.uid is not None:
            os.chown(path, self.uid, self.gid)

    def folder(self, path: Path) -> Path:
        """One that this account passes through, whatever umask we were started with."""
        path.mkdir(parents=True, exist_ok=True)
        if self.uid is not None:
            path.chmod(path.stat().st_mode | 0o711)
        return path

    def can_enter(self, folder: Path) -> bool:
        """Asked of the system, not worked out from mode bits: access lists count too."""
        return self._answers("/bin/sh", "-c", 'cd "$0"', str(folder))

    def can_run(self, program: Path) -> bool:
        return self._answers(str(program), "--version")

    def _answers(self, *argv: str) -> bool:
        try:
            done = subprocess.run(
                argv, cwd="/", capture_output=True, timeout=ANSWER_SECONDS_MAX, **self.drop()
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0


def server_account(preferred: str = "") -> Account:
    """`preferred` (WEIR_RUN_AS), else `weir`, else `nobody`; nothing to drop unless we are root."""
    if os.geteuid() != 0:
        return Account()
    for name in filter(None, (preferred, *CANDIDATES)):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            if name == preferred:
                raise NoAccount(f"WEIR_RUN_AS names {name!r}, which does not exist here") from None
            continue
        if entry.pw_uid != 0:
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise NoAccount(
        "PostgreSQL does not run as root: make an account (useradd --system weir), "
        "or name one in WEIR_RUN_AS"
    )
