"""Who may sleep, and when a sleep is believed: tables."""

from datetime import UTC, datetime, timedelta

import pytest

from control.fleet.scaling import sleep_problems
from control.fleet.sleeping.rules import (
    SETTLE_SECONDS,
    Asleep,
    Kept,
    Waits,
    judge,
    no_room,
    returns_to,
    short_of_ram,
    unable,
)
from control.placement.memory import GIB
from control.states import ReplicaState as S

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
LATE = AT + timedelta(seconds=SETTLE_SECONDS)


@pytest.mark.parametrize(
    ("held", "now", "believed"),
    [
        ({"a": 70 * GIB}, {"a": 2 * GIB}, True),
        ({"a": 70 * GIB}, {"a": 4 * GIB}, True),
        ({"a": 70 * GIB}, {"a": 5 * GIB}, False),  # more than a process keeps of itself
        ({"a": 70 * GIB}, {"a": 70 * GIB}, False),  # the trap: 200, and nothing is free
        ({"a": 2 * GIB}, {"a": 2 * GIB}, False),  # little, but all that it had
        ({"a": 2 * GIB}, {"a": GIB}, True),
        ({"a": 70 * GIB, "b": 70 * GIB}, {"a": GIB, "b": 70 * GIB}, False),  # one of two cards
        ({"a": 70 * GIB, "b": 70 * GIB}, {"a": GIB, "b": GIB}, True),
        ({"a": 70 * GIB}, {"a": None}, False),  # the card cannot be read
        ({"a": 70 * GIB}, {}, False),
        ({"a": 0}, {"a": 0}, False),  # the driver does not show its processes
        ({}, {}, False),  # a CPU
    ],
)
def test_a_sleep_is_believed_when_its_cards_are_free(held, now, believed):
    found = judge(held, now, AT, LATE)
    assert isinstance(found, Asleep if believed else Kept)
    if believed:
        assert found.left_bytes == now


def test_the_driver_gets_a_moment_to_show_it_and_a_clock_put_back_gives_no_more():
    held, now = {"a": 70 * GIB}, {"a": 70 * GIB}
    assert judge(held, now, AT, AT + timedelta(seconds=1)) == Waits()
    assert isinstance(judge(held, now, AT, LATE), Kept)
    assert isinstance(judge(held, now, AT, AT - timedelta(hours=1)), Kept)
    assert isinstance(judge({}, {}, AT, AT), Kept)


@pytest.mark.parametrize(
    ("now", "free", "why"),
    [
        ({"a": GIB}, {"a": 70 * GIB}, ""),
        ({"a": GIB}, {"a": 69 * GIB}, ""),
        ({"a": GIB}, {"a": 68 * GIB}, "others took it"),
        ({"a": GIB}, {"a": None}, "cannot be read"),
        ({"a": GIB}, {}, "cannot be read"),
        ({}, {"a": 69 * GIB}, "others took it"),
    ],
)
def test_it_wakes_only_where_all_that_it_gave_back_is_free(now, free, why):
    found = no_room({"a": 70 * GIB}, now, free)
    assert why in found
    assert bool(found) == bool(why)


@pytest.mark.parametrize(
    ("kind", "least", "devices", "why"),
    [
        ("vllm", 0, {"gpu"}, ""),
        ("vllm", 0, {"gpu", "cpu"}, ""),
        ("vllm", 0, (), ""),  # nobody has joined yet
        ("vllm", 0, {"cpu"}, "no node where it may run has a card"),
        ("vllm", 1, {"gpu"}, "set that to 0"),
        ("external", 0, (), "cannot sleep"),
        ("", 0, (), "cannot sleep"),
    ],
)
def test_who_may_not_sleep_is_told_why(kind, least, devices, why):
    found = unable(kind, least, devices)
    assert why in found
    assert bool(found) == bool(why)


@pytest.mark.parametrize(
    ("level", "what"), [(0, ""), (1, ""), (2, "not proven"), (3, "or off"), ("deep", "or off")]
)
def test_one_level_is_offered(level, what):
    found = sleep_problems("scaling.sleep", level)
    assert bool(found) == bool(what)
    assert all(what in problem.what for problem in found)


def test_weights_must_fit_into_what_is_available_of_the_host():
    assert short_of_ram(14 * GIB, 16 * GIB) == ""
    assert "14.0 GiB" in short_of_ram(14 * GIB, 14 * GIB)


@pytest.mark.parametrize(
    ("state", "awake", "level", "to"),
    [
        (S.LOST, None, 0, None),
        (S.LOST, {"asleep": True}, 1, S.ASLEEP),
        (S.LOST, {"asleep": True}, 0, S.DRAINING),  # it was waking
        (S.LOST, {"held": {}}, 1, S.DRAINING),  # it was falling asleep: nobody knows how far
        (S.READY, {"asleep": True}, 1, None),
    ],
)
def test_one_that_was_lost_returns_to_what_it_was(state, awake, level, to):
    assert returns_to(state, awake, level) is to
