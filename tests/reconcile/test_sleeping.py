"""The last replica sleeps, wakes before anything is launched, and is stopped when nobody would."""

from datetime import timedelta

import pytest

from control.fleet.recycle import Recycle
from control.reconcile.world import Drain, Fail, Note, Start, Wake
from control.states import DeploymentState, NodeState
from tests.reconcile.model import Model
from tests.reconcile.worlds import a_deployment, a_replica, ago, failed, only


def asleep(generation=1, **fields):
    return a_replica("asleep", generation, **({"sleep_level": 1} | fields))


def falling(generation=1, **fields):
    return a_replica("draining", generation, **({"sleep_level": 1} | fields))


@pytest.mark.parametrize(
    ("deployment", "level"),
    [
        (a_deployment(0, a_replica(), sleep=1), 1),
        (a_deployment(0, a_replica()), 0),  # not asked for
        (a_deployment(1, a_replica(), a_replica(generation=2), sleep=1), 0),  # another serves on
        (a_deployment(0, a_replica(), a_replica(generation=2), sleep=1), 0),  # not the last yet
        (a_deployment(0, a_replica(), asleep(2), sleep=1), 0),  # one sleeps already
        (a_deployment(0, a_replica(), falling(2), sleep=1), 0),
        (a_deployment(0, a_replica("warming"), sleep=1), 0),  # it has served nobody
        (a_deployment(0, a_replica("unhealthy"), sleep=1), 0),
        (a_deployment(0, a_replica(is_current=False, leaving="x"), sleep=1), 0),
        (a_deployment(0, a_replica(), sleep=1, state=DeploymentState.DRAINING), 0),
        (a_deployment(0, a_replica(calls=500), sleep=1, recycle=Recycle(calls=500)), 0),
    ],
)
def test_the_last_that_serves_falls_asleep_where_that_is_wanted(deployment, level):
    action = only(deployment)
    assert isinstance(action, Drain)
    assert action.sleep == level


@pytest.mark.parametrize(
    ("deployment", "is_woken"),
    [
        (a_deployment(1, asleep(), sleep=1), True),
        (a_deployment(2, asleep(), a_replica(generation=2), sleep=1), True),
        (a_deployment(1, asleep(), sleep=1, ended=(failed(1),)), True),  # it is no launch
        (a_deployment(1, asleep(node_state=NodeState.UNKNOWN), sleep=1), False),
        (a_deployment(1, a_replica("waking"), sleep=1), None),  # on its way: it counts
        (a_deployment(0, asleep(), sleep=1), None),  # it sleeps on
    ],
)
def test_who_sleeps_wakes_before_anything_is_launched(deployment, is_woken):
    action = only(deployment)
    expected = {True: Wake, False: Start, None: type(None)}[is_woken]
    assert isinstance(action, expected)


def test_who_falls_asleep_is_waited_for_and_woken_then():
    action = only(a_deployment(1, falling(), sleep=1))
    assert isinstance(action, Note)
    assert "#1, which falls asleep" in action.note
    assert isinstance(only(a_deployment(1, falling(is_current=False), sleep=1)), Start)
    assert isinstance(only(a_deployment(1, falling(node_state=NodeState.UNKNOWN))), Start)


@pytest.mark.parametrize(
    ("deployment", "why"),
    [
        (a_deployment(0, asleep()), "not wanted any more"),
        (a_deployment(0, asleep(), sleep=1, state=DeploymentState.DRAINING), "is draining"),
        (a_deployment(0, asleep(is_current=False), sleep=1), "not of the wanted version"),
        (a_deployment(0, asleep(is_current=False, leaving="node n1 is drained"), sleep=1), "n1"),
        (a_deployment(1, asleep(), a_replica(generation=2), sleep=1), "others serve"),
        (a_deployment(0, asleep(), asleep(2), sleep=1), "another one sleeps"),
        (
            a_deployment(0, asleep(ready_at=ago(7200)), sleep=1, recycle=Recycle(hours=1)),
            "launched anew",
        ),
    ],
)
def test_who_would_not_be_woken_is_stopped(deployment, why):
    action = only(deployment)
    assert isinstance(action, Drain)
    assert (action.replica_id, action.sleep) == (1, 0)
    assert why in action.reason


def test_one_that_does_not_get_awake_in_time_has_failed():
    action = only(a_deployment(1, a_replica("waking", state_at=ago(1000)), sleep=1))
    assert isinstance(action, Fail)


def test_another_is_launched_at_once_when_one_did_not_wake():
    did_not = failed(0, cause="wake_up")
    assert isinstance(only(a_deployment(1, sleep=1, ended=(did_not,))), Start)


def test_one_of_a_node_that_was_lost_serves_nobody_when_that_is_back():
    slept = a_replica("lost", sleep_level=1)
    assert only(a_deployment(0, slept, sleep=1)) is None
    assert isinstance(only(a_deployment(1, slept, sleep=1)), Start)


def test_in_a_world_that_is_played_one_launch_serves_sleeps_and_serves_again():
    model = Model(machines=1, deployments=1)
    model.wanted[1].sleep = 1

    def plays(state):
        for _ in range(40):
            model.at += timedelta(seconds=1)
            model.beat()
            model.tick()
            model.check()
        return [row.state for row in model.rows.values()] == [state] and model.at_rest()

    assert plays("ready")
    model.wanted[1].count = 0
    assert plays("asleep")
    model.wanted[1].count = 1
    assert plays("ready")
