"""A data folder of PostgreSQL that has today's schema: made once, copied by whoever needs one."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from control.management.local.account import server_account
from control.management.local.death import dies_with_us
from control.management.local.ports import free_port
from control.management.local.postgres import Postgres, password_of

ROOT = Path(__file__).parent.parent
MADE = ROOT / ".weir-test"
HANG_SECONDS = 300
KEPT_SECONDS = 7 * 24 * 3600


def place() -> Path:
    """Another one for other migrations, another Django or PostgreSQL, or another account."""
    MADE.mkdir(exist_ok=True)
    told = hashlib.sha256(f"{server_account().name} {password_of(MADE, 'schema')}".encode())
    for path in (ROOT / "requirements.lock", *sorted(ROOT.glob("control/migrations/*.py"))):
        told.update(path.read_bytes())
    return MADE / f"schema-{told.hexdigest()[:16]}"


def ensure() -> Path:
    """Whoever comes first makes it, the others wait."""
    made = place()
    with (MADE / "schema.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _forget_old_ones()
            _make(made)
    return made


def _forget_old_ones() -> None:
    """Nobody copies from them: checkouts that share this folder are of these days."""
    for other in MADE.glob("schema-*"):
        if other.is_dir() and time.time() - other.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(other)


def copy(made: Path, target: Path) -> None:
    """Into the folder where the servers of a home, or of a test run, have their data."""
    # With its owner: PostgreSQL refuses data that is not its account's.
    argv = ["cp", "-a", made / "postgres", target / "postgres"]
    subprocess.run(argv, check=True, timeout=HANG_SECONDS)


def lend_password(target: Path) -> None:
    """Before there is data: the password that all copies have."""
    MADE.mkdir(exist_ok=True)
    file = target / "postgres.password"
    file.touch(mode=0o600)
    file.write_text(password_of(MADE, "schema"))


def _make(made: Path) -> None:
    account = server_account()
    home = Path(tempfile.mkdtemp(prefix="weir-schema-"))
    home.chmod(0o711)  # the server's account passes through
    try:
        servers = account.folder(home / "servers")
        lend_password(servers)
        postgres = Postgres(servers, free_port(), account, throwaway=True)
        postgres.prepare()
        _migrate(postgres, home)
        making = made.with_name(f"making-{made.name}")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        copy(servers, making)
        making.rename(made)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _migrate(postgres: Postgres, home: Path) -> None:
    log = (home / "postgres.log").open("ab")
    preexec = dies_with_us(postgres.stop_signal)
    argv, options = postgres.argv(), {"stdout": log, "stderr": log, **postgres.popen}
    server = subprocess.Popen(argv, preexec_fn=preexec, **options)
    try:
        deadline = time.monotonic() + HANG_SECONDS
        while not postgres.ready():
            assert server.poll() is None, "PostgreSQL ended"
            assert time.monotonic() < deadline, "PostgreSQL did not start"
            time.sleep(0.02)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")}
        environment |= {"WEIR_HOME": str(home), "WEIR_DATABASE_URL": postgres.url}
        migrate = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity", "0"]
        subprocess.run(migrate, env=environment, check=True, timeout=HANG_SECONDS)
    finally:
        server.send_signal(postgres.stop_signal)  # written out: a copy needs no recovery
        server.wait(HANG_SECONDS)


if __name__ == "__main__":
    ensure()
