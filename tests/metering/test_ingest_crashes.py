"""Shipping may be killed anywhere: no event is lost, none is doubled."""

import contextlib
import signal
import subprocess
import sys
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control.metering.ingest import ship
from control.metering.records import Refused
from control.metering.spool import SpoolWriter
from control.models import (
    AuditEntry,
    Posting,
    Price,
    RefusalCount,
    SpoolPosition,
    Transfer,
    UsageEvent,
)
from tests.metering.books import assert_books_agree
from tests.metering.conftest import AT, a_house, spool

STEPS = ("read", "stored", "counted", "committed", "remembered", "forgotten")


class Killed(Exception):
    """Stands for a process that ends here."""


def kill_at(step: str, times: int = 1):
    left = [times]

    def check(name: str) -> None:
        if name == step and left[0]:
            left[0] -= 1
            raise Killed(name)

    return check


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.django_db(transaction=True)
def test_m03_m04_killed_at_any_step_nothing_is_lost_or_doubled(step, tmp_path):
    house = a_house()
    Price.objects.create(
        model=house.version.model,
        currency="USD",
        input_pico=1,
        cached_input_pico=1,
        output_pico=1,
        valid_from=AT,
    )
    spool(
        tmp_path,
        house.open("req_1"),
        house.close("req_1"),
        house.open("req_2"),
        house.progress("req_2", 3),
        Refused("acme", house.key.pk, "rate", 60, 5),
    )
    with pytest.raises(Killed):
        ship(tmp_path, set(), AT, kill_at(step))
    ship(tmp_path, set(), AT + timedelta(seconds=5))
    assert sorted(UsageEvent.objects.values_list("call_id", "outcome")) == [
        ("req_1", "complete"),
        ("req_2", "lost"),
    ]
    assert Transfer.objects.count() == 2  # closes, and what was lost
    assert sum(Posting.objects.values_list("amount_pico", flat=True)) == 0
    assert [count.count for count in RefusalCount.objects.all()] == [5]
    assert not AuditEntry.objects.exists()
    assert_books_agree(house.tenant)
    assert not (tmp_path / "gw-1").exists()
    assert not SpoolPosition.objects.exists()


KILLED = """
import os, pathlib, signal, sys
import django
django.setup()
from django.utils import timezone
from control.metering.ingest import ship
def step(name):
    if name == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
ship(pathlib.Path(sys.argv[1]), set(), timezone.now(), step)
"""


@pytest.mark.parametrize("step", ["counted", "committed"])
def test_m04_a_shipper_killed_with_9_is_taken_over(step, tmp_path, environment):
    house = a_house()
    spool(tmp_path, house.open("req_1"), house.close("req_1"), house.open("req_2"))
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), step],
        env={**environment, "DJANGO_SETTINGS_MODULE": "console.settings"},
        cwd=Path(__file__).parents[2],
        check=False,
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL
    assert UsageEvent.objects.count() == (2 if step == "committed" else 0)
    ship(tmp_path, set(), AT)
    assert sorted(UsageEvent.objects.values_list("call_id", flat=True)) == ["req_1", "req_2"]
    assert not AuditEntry.objects.exists()


RUNS = count(1)
ENDS = st.sampled_from((*STEPS, "told"))
OWNERS = ("gw-1", "gw-2")
MONTHS = (AT, AT.replace(month=12, day=1), AT.replace(year=2027, month=1, day=1))


def an_id(run: int, number: int) -> str:
    """Of three months, and those that tell none."""
    if number % 4 == 3:
        return f"req_{run}_{number}"
    milliseconds = int(MONTHS[number % 4].timestamp() * 1000)
    return f"req_{milliseconds:012x}7{number:03x}8{run:015x}"


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    writes=st.lists(
        st.tuples(
            st.integers(0, 7), st.sampled_from(["open", "close", "other"]), st.sampled_from(OWNERS)
        ),
        max_size=20,
    ),
    ships_after=st.dictionaries(
        st.integers(0, 19),
        st.tuples(st.none() | ENDS, st.integers(1, 2), st.sampled_from([0, 40, 700])),
    ),
)
def test_events_ledger_and_sums_are_right_under_any_interleaving(
    house, tmp_path_factory, writes, ships_after
):
    """Calls of some months open and end, at two gateways; ends are doubled, come late, or differ
    from the first; shipping is broken off: none is lost, none doubled, and the books agree."""
    directory, run = tmp_path_factory.mktemp("spool"), next(RUNS)
    writers = {owner: SpoolWriter(directory, owner, segment_bytes_max=700) for owner in OWNERS}
    known: set[str] = set()
    for index, (number, what, owner) in enumerate(writes):
        call_id = an_id(run, number)
        if what != "open":
            changes = {"output_tokens": 51} if what == "other" else {}
            writers[owner].append(house.close(call_id, **changes))
        elif call_id not in known:
            writers[owner].append(house.open(call_id))
        known.add(call_id)
        step, times, days = ships_after.get(index, (None, 0, 0))
        for _ in range(times):
            with contextlib.suppress(Killed):
                at = AT + timedelta(days=days)
                ship(directory, set(OWNERS), at, kill_at(step) if step else lambda name: None)
    for writer in writers.values():
        writer.close()
    ship(directory, set(), AT + timedelta(days=800))
    mine = UsageEvent.objects.filter(call_id__in=known)
    assert sorted(mine.values_list("call_id", flat=True)) == sorted(known)
    assert_books_agree(house.tenant)
    assert not SpoolPosition.objects.exists()
