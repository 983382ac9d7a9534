"""Sums and postings can be made anew from events, whatever became of them."""

import io
from dataclasses import replace
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from control.checks import Refused
from control.metering.books import actions, facts
from control.metering.books.actions import Rebuilt
from control.metering.cost import hours
from control.metering.cost.lines import Line
from control.metering.cost.rules import HOUR
from control.metering.ingest import ship
from control.models import AuditEntry, CostHour, Transfer, UsageHour
from tests.metering.books import assert_books_agree
from tests.metering.conftest import AT, a_house, spool
from tests.metering.device_time import seen

WHY = {"by": "ada", "reason": "a disk was restored", "at": AT}


@pytest.fixture
def stored(house, tmp_path):
    """Two tenants' calls on two days, one without a price."""
    other = a_house("other")
    spool(
        tmp_path,
        house.close("req_1"),
        house.close("req_2", started_at=AT.timestamp() - 86400),
        other.close("req_3"),
        house.close("req_4", version_id=None),
    )
    ship(tmp_path, set(), AT)
    return house, other


def lose(statement: str) -> None:
    """As a careless superuser would: a replica of a database fires no triggers."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement)
        cursor.execute("SET LOCAL session_replication_role = origin")


def test_books_that_agree_are_left_as_they_are(stored):
    before = list(UsageHour.objects.order_by("pk").values())
    assert all(one.holds for one in facts.agreement())
    assert [one.currency for one in facts.agreement()] == ["", "USD"]
    assert actions.rebuild(**WHY) == Rebuilt(cost_hours=2)
    assert list(UsageHour.objects.order_by("pk").values()) == before


@pytest.mark.parametrize(
    ("damage", "rebuilt"),
    [
        ("DELETE FROM control_usagehour", Rebuilt(hours=4)),
        ("UPDATE control_usagehour SET calls = calls + 1", Rebuilt(hours=8)),
        ("UPDATE control_usagehour SET hour = hour + interval '3 days'", Rebuilt(hours=8)),
        ("DELETE FROM control_posting; DELETE FROM control_transfer", Rebuilt(transfers=2)),
        ("DELETE FROM control_posting", Rebuilt(transfers=2)),
        ("UPDATE control_posting SET amount_pico = amount_pico * 3", Rebuilt(transfers=2)),
    ],
)
def test_what_is_lost_or_wrong_is_made_anew_from_events(stored, damage, rebuilt):
    lose(damage)
    with pytest.raises(AssertionError):
        assert_books_agree(stored[0].tenant)
    assert actions.rebuild(**WHY) == replace(rebuilt, cost_hours=2)
    assert all(one.holds for one in facts.agreement())
    for house in stored:
        assert_books_agree(house.tenant)
    assert AuditEntry.objects.get(action="rebuild books").by == "ada"
    assert actions.rebuild(**WHY) == Rebuilt(cost_hours=2)


def test_transfers_of_single_calls_as_older_releases_posted_them_count(stored):
    lose(
        "UPDATE control_transfer SET idempotency_key = 'usage:' || id || ':req_9:final';"
        "UPDATE control_usageevent SET batch = 0"
    )
    assert actions.repost(AT) == 0
    assert Transfer.objects.count() == 2


def test_hours_of_cost_are_made_anew_and_those_of_nothing_are_gone(stored):
    seen("GPU-1", AT, {(Line.IDLE, 0): 3600})
    hours.refresh(AT + HOUR, back=timedelta(days=2))
    figures = ("hour", "line", "pool", "device_microseconds", "calls", "charged_pico")
    before = list(CostHour.objects.order_by(*figures).values(*figures))
    assert {row["hour"] for row in before} == {AT - timedelta(days=1), AT}
    lose(
        "DELETE FROM control_costhour WHERE line = 'idle';"
        "UPDATE control_costhour SET calls = calls * 7;"
        "INSERT INTO control_costhour SELECT (jsonb_populate_record(one, jsonb_build_object("
        " 'id', one.id + 1000, 'hour', one.hour - interval '9 days'))).* FROM control_costhour one;"
        "INSERT INTO control_costhourmade SELECT (jsonb_populate_record(one, jsonb_build_object("
        " 'hour', one.hour - interval '9 days'))).* FROM control_costhourmade one"
    )
    assert actions.rebuild(**WHY) == Rebuilt(cost_hours=4)
    assert list(CostHour.objects.order_by(*figures).values(*figures)) == before
    assert AuditEntry.objects.get().after == {"hours": 0, "transfers": 0, "cost_hours": 4}


def test_a_rebuild_needs_a_reason(stored):
    with pytest.raises(Refused, match="reason"):
        actions.rebuild(by="ada", reason=" ", at=AT)


def test_the_command_tells_and_mends(stored):
    out = io.StringIO()
    call_command("books", stdout=out)
    assert "ok    USD: 3 calls and 0.000855 in events" in out.getvalue()
    lose("DELETE FROM control_usagehour")
    with pytest.raises(CommandError, match="do not agree"):
        call_command("books", stdout=out)
    call_command("books", rebuild=True, reason="lost", stdout=out)
    said = "4 sums and 0 transfers were put right, 2 hours of cost made anew"
    assert said in out.getvalue()
