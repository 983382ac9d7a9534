"""A database that is away is told of once, without the places in the code that noticed."""

import logging

import pytest
from django.db import OperationalError, connection

from control import periodic
from control.telemetry.outages import Outage

log = logging.getLogger("outages")


def test_an_outage_is_told_once_and_its_end_once(caplog):
    outage = Outage(log, "usage waits")
    outage.is_over()
    for _ in range(3):
        outage.goes_on(OperationalError("connection refused\n  is it running?"))
    for _ in range(3):
        outage.is_over()
    outage.goes_on(OperationalError())
    assert caplog.messages == [
        "usage waits: connection refused",
        "over: usage waits",
        "usage waits: OperationalError",
    ]


@pytest.mark.django_db(transaction=True)
def test_what_runs_on_a_clock_says_once_that_the_database_is_away(caplog):
    for _ in range(3):
        with periodic._database(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    periodic.reconcile()
    records = [one for one in caplog.records if one.name == "control.periodic"]
    assert [one.levelname for one in records] == ["WARNING", "WARNING"]
    assert "terminating connection" in records[0].message
    assert not any(one.exc_info for one in records)
