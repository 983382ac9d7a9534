"""What reconcile does next, as a table."""

from dataclasses import replace

import pytest

from control.reconcile import backoff
from control.reconcile.rules import plan
from control.reconcile.world import (
    BackOff,
    Drain,
    Fail,
    Heartbeat,
    Lose,
    MoveNode,
    Note,
    Policy,
    Start,
    Stop,
    World,
)
from control.states import DeploymentState, Hindrance, NodeState
from tests.reconcile.worlds import AT, GIB, a_deployment, a_node, a_replica, ago, failed, only


def test_starts_what_is_missing_on_a_node_with_room():
    action = only(a_deployment(1))
    assert isinstance(action, Start)
    assert action.placed.node == "n1"
    assert action.generation == 1


def test_rests_when_seen_is_wanted():
    assert only(a_deployment(1, a_replica())) is None


@pytest.mark.parametrize("state", ["placed", "preparing", "starting", "loading", "warming"])
def test_a_replica_on_its_way_counts(state):
    assert only(a_deployment(1, a_replica(state))) is None


def test_waits_and_says_why_when_nothing_fits():
    small = a_node(total=GIB)
    action = only(a_deployment(1), small)
    assert isinstance(action, Note)
    assert "n1/RAM has" in action.note
    assert "2.0 GiB are needed" in action.note


def test_a_reason_already_written_is_not_written_again():
    small = a_node(total=GIB)
    said = only(a_deployment(1), small)
    assert only(a_deployment(1, note=said.note, hindrance=said.hindrance), small) is None


def test_clears_its_note_when_nothing_is_missing():
    assert only(a_deployment(1, a_replica(), note="waits")) == Note(1, "")


def test_one_plan_never_gives_the_same_memory_twice():
    first, second = a_deployment(1), replace(a_deployment(1), id=2)
    start, wait = plan(World(AT, (first, second), (a_node(total=3 * GIB),)))
    assert isinstance(start, Start)
    assert isinstance(wait, Note)


@pytest.mark.parametrize(
    ("name", "replicas", "drained"),
    [
        ("oldest of ready ones", [("ready", 1), ("ready", 2)], 1),
        ("one that is not ready yet first", [("ready", 1), ("loading", 2)], 2),
        ("unhealthy before ready", [("unhealthy", 1), ("ready", 2)], 1),
    ],
)
def test_drains_the_least_missed_of_too_many(name, replicas, drained):
    action = only(a_deployment(1, *(a_replica(state, number) for state, number in replicas)))
    assert isinstance(action, Drain)
    assert action.replica_id == drained


@pytest.mark.parametrize("state", [DeploymentState.DRAINING, DeploymentState.ARCHIVED])
def test_drains_all_of_a_deployment_that_is_not_active(state):
    action = only(a_deployment(1, a_replica(), state=state))
    assert action == Drain(1, f"the deployment is {state}")
    assert only(a_deployment(1, a_replica("draining"), state=state)) is None


def test_the_new_version_starts_beside_the_old_one_and_then_replaces_it():
    old = a_replica(is_current=False)
    assert isinstance(only(a_deployment(1, old)), Start)
    coming = a_replica("loading", 2)
    assert only(a_deployment(1, old, coming)) is None
    assert only(a_deployment(1, old, a_replica("ready", 2))).replica_id == 1


def test_without_room_for_both_the_old_version_makes_room():
    old = a_replica(is_current=False)
    action = only(a_deployment(1, old), a_node(total=GIB))
    assert isinstance(action, Drain)
    assert "makes room" in action.reason
    leaving = a_replica("draining", is_current=False)
    assert isinstance(only(a_deployment(1, leaving), a_node(total=GIB)), Note)


def test_an_old_version_that_never_got_ready_is_drained_at_once():
    action = only(a_deployment(1, a_replica("loading", is_current=False)))
    assert isinstance(action, Drain)


@pytest.mark.parametrize(
    ("name", "replica", "cause"),
    [
        ("not claimed", a_replica("placed", state_at=ago(121)), "not_claimed"),
        ("preparing still", a_replica("preparing", state_at=ago(901)), "stalled"),
        (
            "loading still",
            a_replica("loading", state_at=ago(2000), progress_at=ago(901)),
            "stalled",
        ),
    ],
)
def test_e03_fails_by_stall(name, replica, cause):
    action = only(a_deployment(1, replica))
    assert isinstance(action, Fail)
    assert action.cause == cause


def test_e03_a_slow_start_that_moves_on_is_left_alone():
    slow = a_replica("loading", state_at=ago(90_000), progress_at=ago(899))
    assert only(a_deployment(1, slow)) is None


def test_a_silent_node_is_not_blamed_for_a_stall():
    silent = a_replica("loading", state_at=ago(2000), node_state=NodeState.UNKNOWN)
    assert only(a_deployment(1, silent)) is None


def test_a_lost_node_loses_its_replicas_and_they_are_replaced():
    on_lost = a_replica(node_state=NodeState.LOST)
    assert isinstance(only(a_deployment(1, on_lost)), Lose)
    lost = a_replica("lost", node_state=NodeState.LOST)
    assert isinstance(only(a_deployment(1, lost)), Start)


def test_when_the_lost_one_returns_the_older_generation_is_drained():
    returned, replacement = a_replica(generation=1), a_replica(generation=2)
    assert only(a_deployment(1, returned, replacement)).replica_id == 1


def test_a_removed_node_gives_its_memory_back():
    removed = a_replica("lost", node_state=NodeState.REMOVED)
    assert only(a_deployment(1, removed)) == Fail(1, "node_removed", "node n1 was removed", True)


def test_e05_back_off_doubles_up_to_its_limit():
    delays = [backoff.backoff_seconds(count, 0, Policy()) for count in range(1, 12)]
    assert delays[:8] == sorted(delays[:8])
    assert delays[:3] == pytest.approx([2, 4, 8], rel=0.1)
    assert delays[-1] <= 330


def test_e05_a_failure_waits_then_starts_again():
    once = a_deployment(1, ended=(failed(0),))
    backoff = only(once)
    assert isinstance(backoff, BackOff)
    told = {"note": backoff.note, "hindrance": backoff.hindrance}
    waiting = replace(once, launch_after=backoff.launch_after, **told)
    assert only(waiting) is None
    later = World(backoff.launch_after, (waiting,), (a_node(),))
    assert isinstance(plan(later)[0], Start)


def test_e05_many_failures_in_a_row_are_a_crash_loop():
    action = only(a_deployment(1, ended=tuple(failed(n) for n in range(5))))
    assert action.note.startswith("crash loop: failed 5 times in a row")


def test_e05_a_stable_run_forgives_earlier_failures():
    ran_long = failed(10, ready_at=ago(1210))
    history = (ran_long, failed(1300), failed(1400))
    assert backoff.failures(a_deployment(1, ended=history), AT, Policy()) == [ran_long]


def test_e05_what_would_fail_the_same_way_is_not_tried_again():
    fatal = failed(500, cause="oom_at_start", reason="needs more", retry=False)
    action = only(a_deployment(1, ended=(fatal,)))
    text = "not tried again, it would fail the same way. oom_at_start: needs more"
    assert action == Note(1, text, Hindrance.GIVEN_UP, "oom_at_start")
    told = a_deployment(1, ended=(fatal,), note=text, hindrance=Hindrance.GIVEN_UP)
    assert only(told) is None
    asked = replace(told, launch_after=ago(1))  # an operator said: try again
    assert isinstance(only(asked), Start)


LEAVING = replace(a_deployment(0, a_replica("draining", 9)), id=2)
FULL = a_node(total=GIB)


@pytest.mark.parametrize(
    ("name", "deployment", "others", "hindrance"),
    [
        ("no room", a_deployment(1), (), Hindrance.UNPLACED),
        ("no room for one more", a_deployment(2, a_replica()), (), Hindrance.NONE),
        ("no room until another has left", a_deployment(1), (LEAVING,), Hindrance.NONE),
        ("failed", a_deployment(1, ended=(failed(1),)), (), Hindrance.BACK_OFF),
        (
            "failed beside one that loads",
            a_deployment(2, a_replica("loading"), ended=(failed(1),)),
            (),
            Hindrance.NONE,
        ),
        (
            "failed twice, the first time beside another",
            a_deployment(1, ended=(failed(1),), launch_after=ago(-5), note="failed"),
            (),
            Hindrance.BACK_OFF,
        ),
        ("for good", a_deployment(1, ended=(failed(1, retry=False),)), (), Hindrance.GIVEN_UP),
        ("at zero", a_deployment(0, ended=(failed(1),), note="failed"), (), Hindrance.NONE),
    ],
)
def test_a02_what_hinders_a_start_is_said_while_nothing_is_on_its_way(
    name, deployment, others, hindrance
):
    [said] = [
        action
        for action in plan(World(AT, (deployment, *others), (FULL,)))
        if isinstance(action, BackOff | Note) and action.deployment_id == 1
    ]
    assert said.hindrance is hindrance


def test_an_external_engine_has_one_replica_and_no_device():
    action = only(a_deployment(3, is_external=True))
    assert isinstance(action, Start)
    assert action.placed is None
    assert only(a_deployment(3, a_replica(node=""), is_external=True)) is None
    leaving = a_replica("draining", node="", node_state=None)
    assert isinstance(only(a_deployment(0, leaving, is_external=True)), Stop)


@pytest.mark.parametrize(
    ("state", "silent_seconds", "watched_seconds", "new"),
    [
        ("ready", 14, 900, "ready"),
        ("ready", 16, 900, "unknown"),
        ("unknown", 16, 1, "unknown"),
        ("unknown", 60, 45, "lost"),
        ("ready", 300, 900, "unknown"),
        ("lost", 300, 240, "lost"),
        ("lost", 1, 240, "ready"),
        ("unknown", 1, 10, "ready"),
        ("removed", 1, 900, "removed"),
    ],
)
def test_nodes_are_unknown_after_15_seconds_and_lost_after_60(
    state, silent_seconds, watched_seconds, new
):
    node = Heartbeat(1, "n1", NodeState(state), ago(silent_seconds), ago(watched_seconds))
    moves = plan(World(AT, heartbeats=(node,)))
    assert [move.new for move in moves if isinstance(move, MoveNode)] == (
        [] if new == state else [NodeState(new)]
    )


def test_after_an_outage_of_the_database_no_node_is_lost_unwatched():
    node = Heartbeat(1, "n1", NodeState.UNKNOWN, ago(7200), ago(10))
    assert plan(World(AT, heartbeats=(node,))) == []


def test_a_lost_replica_whose_node_is_back_is_not_replaced_before_it_was_looked_at():
    assert only(a_deployment(1, a_replica("lost"))) is None
