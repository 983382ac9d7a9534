"""What every test may ask for, and what is cleaned up after it."""

import os
from collections.abc import Iterator

import pytest
import redis
from django.conf import settings
from django.db import connections
from django.test import TransactionTestCase

from tests.servers import servers

KEPT = {"django_migrations", "django_content_type", "auth_permission", "control_snapshotpart"}
EMPTY_SNAPSHOT = (
    "UPDATE control_snapshotpart SET version = 1, built = 0, payload = '', built_at = NULL"
)


def _empty_tables(case: TransactionTestCase) -> None:
    """Replaces Django's flush: append-only tables refuse TRUNCATE, rightly, even to tests.

    A replica of a database does not fire triggers, so the cleaning says that it is one.
    """
    for name in case._databases_names(include_mirrors=False):
        connection = connections[name]
        tables = sorted(set(connection.introspection.table_names()) - KEPT)
        deletes = [f"DELETE FROM {connection.ops.quote_name(table)}" for table in tables]
        with connection.cursor() as cursor:
            cursor.execute("BEGIN; SET LOCAL session_replication_role = replica")
            cursor.execute("; ".join([*deletes, EMPTY_SNAPSHOT, "COMMIT"]))


TransactionTestCase._fixture_teardown = _empty_tables

# What is slow to guess is slow to check; no test is about that.
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """The whole server goes with the run; dropping the database would wait for its last client."""
    return True


@pytest.fixture(autouse=True)
def _empty_valkey() -> Iterator[None]:
    yield
    with redis.Redis.from_url(servers.valkey.url) as client:
        client.flushall()


@pytest.fixture
def valkey() -> Iterator[redis.Redis]:
    """The database of live telemetry, shared counters and leases; emptied after each test."""
    with redis.Redis.from_url(settings.REDIS_LIVE_URL, decode_responses=True) as client:
        yield client


@pytest.fixture
def environment(transactional_db) -> dict[str, str]:
    """For a process of ours that a test starts: it sees the rows that the test commits."""
    name = connections["default"].settings_dict["NAME"]
    url = servers.postgres.url.rpartition("/")[0] + f"/{name}"
    return {**os.environ, "WEIR_DATABASE_URL": url}
