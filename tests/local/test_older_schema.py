"""web, control and node do not start on a schema that is older than their code."""

import os
import subprocess
import sys

import psycopg
import pytest

from tests.flows.weir import HANG_SECONDS
from tests.servers import ROOT, servers

MANAGE = str(ROOT / "manage.py")
CONTROL = ("-m", "celery", "-A", "control.celery:app", "worker", "-Q", "control", "-P", "solo")


@pytest.fixture(scope="module")
def older() -> dict[str, str]:
    """A database that has seen the first migration only, and that nobody writes to."""
    admin = servers.postgres.url.rpartition("/")[0]
    with psycopg.connect(f"{admin}/postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE older")
    env = {**os.environ, "WEIR_DATABASE_URL": f"{admin}/older"}
    migrate = [sys.executable, MANAGE, "migrate", "control", "0001", "--verbosity", "0"]
    subprocess.run(migrate, env=env, check=True, timeout=HANG_SECONDS)
    return env


@pytest.mark.parametrize("argv", [(MANAGE, "web"), CONTROL, (MANAGE, "node")])
def test_is_refused_with_the_command_that_helps(older, argv):
    done = subprocess.run(
        [sys.executable, *argv],
        env=older,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert "the database is older than this Weir" in done.stderr
    assert "run `weir migrate`" in done.stderr
