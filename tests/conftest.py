"""What every test may ask for, and what is cleaned up after it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.conf import settings
from django.db import connections
from django.test import TransactionTestCase
from hypothesis import HealthCheck
from hypothesis import settings as examples

from control.management.local.postgres import DATABASE
from tests.servers import servers

# No example is judged by its duration: a busy machine is no fault of the code. They are the same in
# each run: what others would find is looked for with --hypothesis-profile=steady, not by chance.
LIMITS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
examples.register_profile("steady", **LIMITS)
examples.register_profile("same", **LIMITS, derandomize=True)
examples.load_profile("same")

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

# Files of minutes, which wait more than they compute. Workers begin with them, so that none is
# left for the end; each worker takes two files at the start, of which the second must be short.
BEGIN_WITH = (
    "flows/test_real_engine.py",
    "flows/test_three_hosts.py",
    "flows/test_kills.py",
    "tenancy/test_rules.py",
    "catalog/test_catalog.py",
    "routes/test_rules.py",
    "local/test_up.py",
    "engines/test_real_vllm.py",
    "flows/test_real_recovery.py",
    "flows/test_control_path.py",
    "flows/test_external.py",
    "fleet/test_life_by_cases.py",
    "fleet/test_life_of_a_replica.py",
    "local/test_older_schema.py",
    "engines/test_real_weights.py",
)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """The same in all workers: bytes may say when they were made, as gzip's do."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """After pytest-django's own order, of which the rest is kept."""
    here = Path(__file__).parent
    place = {here / name: number for number, name in enumerate(BEGIN_WITH)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


# The schema that this server's data came with (tests/schema.py): the migrations find it done.
connections["default"].settings_dict["TEST"]["TEMPLATE"] = DATABASE

# What is slow to guess is slow to check; no test is about that.
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """The whole server goes with the run; dropping the database would wait for its last client."""
    return True


@pytest.fixture(scope="session")
def _whole_valkey() -> Iterator[redis.Redis]:
    """One connection for all tests: to make it takes longer than most of them."""
    with redis.Redis.from_url(servers.valkey.url) as client:
        yield client


@pytest.fixture(autouse=True)
def _empty_valkey(_whole_valkey: redis.Redis) -> Iterator[None]:
    yield
    _whole_valkey.flushall()


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
