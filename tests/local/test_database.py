"""What PostgreSQL leaves of open connections when it ends and starts again."""

import psycopg
import pytest
from django.db import connection

from tests.gateway.admission.budgets import database_url

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@pytest.mark.django_db(transaction=True)
def test_connections_that_broke_while_they_were_kept_fail_nobody():
    connection.close()
    connection.close_pool()  # with what other tests left in it
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    connection.close()  # into the pool
    with psycopg.connect(database_url(), autocommit=True) as other:
        ended = other.execute(f"SELECT bool_and(pg_terminate_backend(pid, 10000)) {OTHERS}")
        assert ended.fetchone() == (True,)
    with connection.cursor() as cursor:
        assert cursor.execute("SELECT 1").fetchone() == (1,)
