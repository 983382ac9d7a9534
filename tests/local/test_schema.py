"""Migrations run one at a time, and an older schema is refused."""

import subprocess
import sys

import psycopg
import pytest
from django.db import connection

from control.management.commands.migrate import LOCK
from control.management.local.schema import SchemaIsOlder, refuse_older_schema
from tests.flows.weir import HANG_SECONDS, until
from tests.servers import ROOT


@pytest.mark.django_db
def test_a_schema_of_today_is_fine_and_an_older_one_is_refused():
    refuse_older_schema()
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE id ="
            " (SELECT max(id) FROM django_migrations WHERE app = 'control')"
        )
    with pytest.raises(SchemaIsOlder, match="1 migrations missing: control.*run `weir migrate`"):
        refuse_older_schema()


def test_migrations_wait_for_those_of_another_host(environment):
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    argv = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity", "0"]
    with psycopg.connect(environment["WEIR_DATABASE_URL"], autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        migrating = subprocess.Popen(argv, env=environment)
        until(lambda: other.execute(waiting).fetchone(), "migrations that wait")
        assert migrating.poll() is None
    assert migrating.wait(HANG_SECONDS) == 0
