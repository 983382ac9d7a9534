"""The folder of one instance: which process owns it, what runs in it, and what it keeps secret."""

import fcntl
import json
import os
import secrets
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

import psutil

from control.management.local.account import Account

ELSEWHERE = Path("/var/lib/weir")


class Claimed(Exception):
    """Another supervisor runs in this home."""


class NotEnoughDisk(Exception):
    """Says how much is free, how much is needed, and for what."""


class CannotUseHome(Exception):
    """The folder cannot be made or written to."""


@dataclass(frozen=True)
class Process:
    """A pid and its start: together they name one process for ever."""

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> "Process":
        return cls(pid, psutil.Process(pid).create_time())

    def find(self) -> psutil.Process | None:
        try:
            found = psutil.Process(self.pid)
            # Rounded: the clock that start times are told by is corrected while we run.
            return found if abs(found.create_time() - self.started) < 2 else None
        except psutil.NoSuchProcess:
            return None


@dataclass
class Running:
    """What the supervisor tells others: `weir down`, `weir up --detach`, tests."""

    pid: int = 0
    stage: str = "stopped"  # starting | ready | stopping | stopped | failed
    detail: str = ""
    console_url: str = ""
    gateway_url: str = ""
    children: dict[str, Process] = field(default_factory=dict)


@dataclass(frozen=True)
class Home:
    path: Path

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def connections(self) -> Path:
        return self.path / "connections.json"

    def make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o711)
            self.logs.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise CannotUseHome(
                f"cannot make {error.filename}: {error.strerror}; choose another WEIR_HOME"
            ) from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise CannotUseHome(f"cannot write to {self.path}; choose another WEIR_HOME")

    def claim(self) -> IO[str]:
        """Ours until the file is closed or we die."""
        lock = (self.path / "supervisor.lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise Claimed(
                f"Weir already runs in {self.path} (pid {self.running().pid}): stop it with "
                f"`weir down`, or choose another WEIR_HOME and other ports"
            ) from None
        return lock

    def is_claimed(self) -> bool:
        try:
            self.claim().close()
        except Claimed:
            return True
        except FileNotFoundError:
            pass
        return False

    def running(self) -> Running:
        try:
            told = json.loads((self.path / "supervisor.json").read_text())
        except (FileNotFoundError, ValueError):
            return Running()
        told["children"] = {name: Process(**child) for name, child in told["children"].items()}
        return Running(**told)

    def tell(self, running: Running) -> None:
        self.write_private("supervisor.json", json.dumps(asdict(running), indent=1))

    def connect(self, **connections: str | int) -> None:
        self.write_private("connections.json", json.dumps(connections, indent=1))

    def disconnect(self) -> None:
        self.connections.unlink(missing_ok=True)

    def write_private(self, name: str, text: str) -> None:
        """0600 from its first byte, and whole or not there at all."""
        making = self.path / f".{name}.{os.getpid()}"
        making.unlink(missing_ok=True)
        handle = os.open(making, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        making.rename(self.path / name)

    def read(self, name: str) -> str:
        try:
            return (self.path / name).read_text()
        except FileNotFoundError:
            return ""

    def server_place(self, account: Account) -> Path:
        """Where the servers' data is: here, or where their account can get at it.

        A home below a closed folder (/root) is out of reach for an account that PostgreSQL
        accepts; the data then lives below /var/lib/weir, and `servers` here points to it.
        """
        place = self.path / "servers"
        if place.is_symlink() or not account.name:
            place.mkdir(exist_ok=True, mode=0o711)
            return place.resolve()
        if not account.can_enter(self.path):
            self.path.chmod(self.path.stat().st_mode | 0o011)  # passing through, not reading
        if account.can_enter(self.path):
            return account.folder(place)
        return self._elsewhere(place, account)

    def _elsewhere(self, place: Path, account: Account) -> Path:
        if place.exists():
            raise CannotUseHome(
                f"{place} holds data, but a folder above it is closed to the servers' account: "
                f"open it (chmod o+x) as it was before, or name another account in WEIR_RUN_AS"
            )
        # A name of its own: a home made anew at the same path is another instance.
        target = ELSEWHERE / f"{self.path.parent.name}-{secrets.token_hex(4)}"
        account.folder(target.parent)
        place.symlink_to(account.folder(target))
        return target

    def require_disk(self, needed_bytes: int, purpose: str) -> None:
        free_bytes = shutil.disk_usage(self.path).free
        if free_bytes < needed_bytes:
            raise NotEnoughDisk(
                f"{free_bytes / 1e9:.1f} GB free below {self.path}, {needed_bytes / 1e9:.0f} GB "
                f"needed {purpose}: free some space or choose another WEIR_HOME"
            )
