"""How many replicas: a table of cases, with the clock as an argument."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from control.autoscaling.rules import Bounds, Fleet, Memory, Signs, decide
from control.fleet.scaling import Policy, Scaling, Schedule
from control.fleet.troubles.rules import warnings

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)  # a Monday
SCALING = Scaling()
WIDE = Bounds(replicas_min=1, replicas_max=10)
CALM = Signs(waiting=0, oldest_seconds=0, use_ratio=0.5, urgent_ratio=0.5, running=4)


def ago(seconds: float) -> datetime:
    return AT - timedelta(seconds=seconds)


def used(ratio: float, **more) -> Signs:
    return replace(CALM, use_ratio=ratio, urgent_ratio=ratio, **more)


def wanted(fleet, signs=CALM, memory=None, scaling=SCALING, bounds=WIDE) -> int:
    return decide(fleet, signs, memory or Memory(), scaling, bounds, AT).wanted


BUSY, IDLE = Memory(busy_since=ago(300)), Memory(idle_since=ago(1800))


@pytest.mark.parametrize(
    ("fleet", "signs", "memory", "size"),
    [
        # Calls that wait, eight for each replica, in one step; those on their way count.
        (Fleet(1, 1), replace(CALM, waiting=8), None, 1),
        (Fleet(1, 1), replace(CALM, waiting=9), None, 2),
        (Fleet(1, 1), replace(CALM, waiting=33), None, 5),
        (Fleet(5, 1, 4), replace(CALM, waiting=33), None, 5),
        (Fleet(1, 1), replace(CALM, waiting=800), None, 10),
        (Fleet(1, 0, 1), replace(CALM, waiting=200), None, 1),  # nothing is known of its pace yet
        (Fleet(1, 1), replace(CALM, batch_waiting=500.0), None, 1),
        # In use: above the band for five minutes, and in it afterwards.
        (Fleet(6, 6), used(0.9), BUSY, 7),
        (Fleet(6, 6), used(0.9), Memory(busy_since=ago(299)), 6),
        (Fleet(6, 6), used(0.84), BUSY, 6),
        (Fleet(2, 2), used(0.9), BUSY, 2),  # 60 % afterwards: it would swing
        (Fleet(7, 6, 1), used(0.9), BUSY, 7),  # 77 % when the seventh is there
        (Fleet(6, 6), replace(used(0.9), urgent_ratio=0.3), BUSY, 6),  # batch
        (Fleet(10, 10), used(1.0), BUSY, 10),
        # Hardly in use for half an hour, nobody waits, and below the band afterwards.
        (Fleet(3, 3), used(0.2), IDLE, 2),
        (Fleet(3, 3), used(0.2), Memory(idle_since=ago(1799)), 3),
        (Fleet(3, 3), used(0.2, waiting=1), IDLE, 3),
        (Fleet(3, 3), used(0.2, batch_waiting=1), IDLE, 3),
        (Fleet(3, 2, 1), used(0.2), IDLE, 3),
        (Fleet(3, 3), used(0.2), replace(IDLE, shrank_at=ago(299)), 3),
        (Fleet(3, 3), used(0.2), replace(IDLE, shrank_at=ago(300)), 2),
        (Fleet(3, 3), used(0.2), replace(IDLE, held_until=AT + timedelta(seconds=1)), 3),
        (Fleet(1, 1), used(0.0), IDLE, 1),
        # Nothing is known: it stays.
        (Fleet(3, 3), Signs(), IDLE, 3),
        (Fleet(3, 3), Signs(), BUSY, 3),
        (Fleet(3, 3), Signs(), Memory(late_since=ago(3600), quiet_since=ago(3600)), 3),
        # Bounds hold whatever is known.
        (Fleet(0, 0), Signs(), None, 1),
        (Fleet(12, 12), Signs(), None, 10),
    ],
)
def test_sizes(fleet, signs, memory, size):
    assert wanted(fleet, signs, memory) == size


@pytest.mark.parametrize(
    ("seconds", "fleet", "size"),
    [(30, Fleet(2, 2), 3), (29, Fleet(2, 2), 2), (60, Fleet(2, 1, 1), 2), (60, Fleet(1, 0), 1)],
)
def test_calls_that_wait_longer_than_their_first_token_may_take_want_one_more(seconds, fleet, size):
    bounds = replace(WIDE, ttft_seconds=0.5)
    signs = replace(CALM, waiting=2, oldest_seconds=0.8)
    assert wanted(fleet, signs, Memory(late_since=ago(seconds)), bounds=bounds) == size


def test_a_slow_first_token_that_did_not_wait_wants_no_more():
    bounds = replace(WIDE, ttft_seconds=0.5)
    assert wanted(Fleet(2, 2), CALM, Memory(late_since=ago(60)), bounds=bounds) == 2


ZERO = Bounds(replicas_min=0, replicas_max=4)


@pytest.mark.parametrize(
    ("fleet", "signs", "memory", "size"),
    [
        (Fleet(0, 0), Signs(waiting=0), None, 0),
        (Fleet(0, 0), Signs(waiting=1), None, 1),
        (Fleet(0, 0), Signs(waiting=200), None, 1),  # A02 b: one launch
        (Fleet(0, 0), Signs(waiting=0, batch_waiting=1), None, 1),
        (Fleet(1, 1), used(0.0, running=0), Memory(quiet_since=ago(600)), 0),
        (Fleet(1, 1), used(0.0, running=0), Memory(quiet_since=ago(599)), 1),
        (Fleet(1, 1), used(0.0, running=1), Memory(quiet_since=ago(600)), 1),
        (Fleet(1, 0), Signs(waiting=0), Memory(quiet_since=ago(600)), 0),  # its start has failed
        (Fleet(1, 0, 1), Signs(waiting=0), Memory(quiet_since=ago(600)), 1),
    ],
)
def test_from_zero_and_back(fleet, signs, memory, size):
    assert wanted(fleet, signs, memory, bounds=ZERO) == size


@pytest.mark.parametrize(
    ("gpu", "memory", "size"),
    [
        (0.8, BUSY, 3),
        (0.8, Memory(busy_since=ago(200)), 2),
        (0.6, BUSY, 2),
        (0.1, IDLE, 1),
        (None, BUSY, 2),
    ],
)
def test_the_utilisation_of_gpus_can_be_what_counts(gpu, memory, size):
    signs = replace(CALM, gpu_ratio=gpu)
    assert wanted(Fleet(2, 2), signs, memory, replace(SCALING, policy=Policy.GPU)) == size


def test_batch_does_not_make_a_batch_deployment_grow():
    bounds = replace(WIDE, is_batch=True)
    assert wanted(Fleet(1, 1), used(1.0, waiting=100), BUSY, bounds=bounds) == 1


@pytest.mark.parametrize(
    ("days", "begins", "ends", "at", "least"),
    [
        ("weekdays", "09:00", "19:00", AT, 4),
        ("weekdays", "13:00", "19:00", AT, 1),  # 12:00 UTC
        ("weekends", "09:00", "19:00", AT, 1),
        ("mon,wed", "00:00", "24:00", AT, 4),
        ("sun", "22:00", "13:00", AT, 4),  # since last night
        ("mon", "22:00", "13:00", AT, 1),
    ],
)
def test_schedules_raise_the_least(days, begins, ends, at, least):
    scaling = Scaling(schedules=(Schedule(4, days, begins, ends),))
    assert scaling.least(1, at) == least


def test_a_schedule_is_of_its_time_zone():
    scaling = Scaling(schedules=(Schedule(4, "weekdays", "13:00", "19:00", "Europe/Berlin"),))
    assert scaling.least(1, AT) == 4
    assert wanted(Fleet(1, 1), Signs(), scaling=scaling) == 4


@pytest.mark.parametrize(
    ("interactive", "most", "size", "nodes", "told"),
    [(True, 1, 1, 1, "only replica"), (True, 4, 1, 1, "only replica"), (True, 4, 2, 1, "one node")],
)
def test_what_one_failure_would_stop_is_told(interactive, most, size, nodes, told):
    [said] = warnings(is_interactive=interactive, replicas_max=most, wanted=size, nodes=nodes)
    assert told in said


@pytest.mark.parametrize(("interactive", "size", "nodes"), [(True, 2, 2), (False, 1, 1)])
def test_what_can_lose_one_is_not_warned_about(interactive, size, nodes):
    assert not warnings(is_interactive=interactive, replicas_max=4, wanted=size, nodes=nodes)
