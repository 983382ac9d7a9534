"""What leaves a node, and when: the successor first, unless the host goes before it can come."""

from dataclasses import replace
from datetime import timedelta

import pytest

from control.reconcile import leaving
from control.reconcile.world import BackOff, Drain, Note, Start
from control.states import ReplicaState
from tests.reconcile.worlds import AT, NEED, a_deployment, a_node, a_replica, ago, failed, only

DRAINED = {"leaving": "node n1 is drained (repair)", "is_current": False}
NOTICE = {
    "leaving": "node n1 goes at 12:02:00 UTC (notice)",
    "is_current": False,
    "leaves_by": AT + timedelta(seconds=120),
    "leaves_since": AT,
}
ELSEWHERE = (a_node("n1", blocked="is being drained: repair"), a_node("n2"))
NOWHERE = (a_node("n1", blocked="is being drained: repair"),)


def soon(seconds_left):
    """A notice of 120 s, of which so many are left."""
    return NOTICE | {
        "leaves_by": AT + timedelta(seconds=seconds_left),
        "leaves_since": AT - timedelta(seconds=120 - seconds_left),
    }


def test_a_replica_of_a_drained_node_serves_until_its_successor_does():
    old = a_replica("ready", 1, **DRAINED)
    start = only(a_deployment(1, old), *ELSEWHERE)
    assert (type(start), start.placed.node) == (Start, "n2")
    assert only(a_deployment(1, old, a_replica("loading", 2, node="n2")), *ELSEWHERE) is None
    drain = only(a_deployment(1, old, a_replica("ready", 2, node="n2")), *ELSEWHERE)
    assert (type(drain), drain.replica_id, drain.by) == (Drain, 1, None)
    assert drain.reason == "node n1 is drained (repair); the new one is ready"


def test_one_leaves_for_each_successor():
    two = (a_replica("ready", 1, **DRAINED), a_replica("ready", 2, **DRAINED))
    assert isinstance(only(a_deployment(2, *two), *ELSEWHERE), Start)
    three = (*two, a_replica("ready", 3, node="n2"))
    assert only(a_deployment(2, *three), *ELSEWHERE).replica_id == 1
    after = (replace(two[0], state=ReplicaState.DRAINING), two[1], three[2])
    start = only(a_deployment(2, *after), *ELSEWHERE)
    assert isinstance(start, Start)


def test_without_another_place_it_serves_on_and_says_why():
    note = only(a_deployment(1, a_replica("ready", 1, **DRAINED)), *NOWHERE)
    assert isinstance(note, Note)
    assert "is being drained" in note.note


def test_a_failing_successor_keeps_the_old_one_serving():
    wanted = a_deployment(1, a_replica("ready", 1, **DRAINED), ended=(failed(1),))
    assert isinstance(only(wanted, *ELSEWHERE), BackOff)


@pytest.mark.parametrize("state", ["placed", "preparing", "starting", "loading", "unhealthy"])
@pytest.mark.parametrize("why", [DRAINED, NOTICE])
def test_what_serves_nobody_leaves_at_once(state, why):
    drain = only(a_deployment(1, a_replica(state, **why)), *ELSEWHERE)
    assert (type(drain), drain.replica_id) == (Drain, 1)


def test_a_host_that_goes_is_left_at_once_if_others_serve_on():
    both = (a_replica("ready", 1, **NOTICE), a_replica("ready", 2, node="n2"))
    drain = only(a_deployment(2, *both), *ELSEWHERE)
    assert (drain.replica_id, drain.by) == (1, NOTICE["leaves_by"] - timedelta(seconds=20))
    assert "others serve on" in drain.reason


@pytest.mark.parametrize(
    ("seconds_left", "action"), [(119, Start), (61, Start), (60, Drain), (1, Drain)]
)
def test_a_lone_replica_waits_for_its_successor_for_half_of_the_notice(seconds_left, action):
    lone = a_deployment(1, a_replica("ready", 1, **soon(seconds_left)))
    assert type(only(lone, *ELSEWHERE)) is action


def test_replicas_of_another_version_leave_too():
    old = a_replica("ready", 1, **soon(30))
    assert isinstance(only(a_deployment(1, old), *ELSEWHERE), Drain)


def test_a_leaving_replica_is_no_surplus_and_its_successor_neither():
    pair = (a_replica("ready", 1, **DRAINED), a_replica("starting", 2, node="n2"))
    assert only(a_deployment(1, *pair), *ELSEWHERE) is None


def test_who_is_wanted_no_longer_goes_before_those_that_stay():
    pair = (a_replica("ready", 1), a_replica("ready", 2, node="n2", **DRAINED))
    assert only(a_deployment(1, *pair), *ELSEWHERE).replica_id == 2


def test_of_several_the_one_whose_host_goes_first_leaves_first():
    later = NOTICE | {"leaves_by": AT + timedelta(seconds=600)}
    both = (a_replica("ready", 1, **later), a_replica("ready", 2, **NOTICE))
    all_three = (*both, a_replica("ready", 3, node="n2"))
    assert only(a_deployment(3, *all_three), *ELSEWHERE).replica_id == 2


@pytest.mark.parametrize(
    ("least", "replicas", "spare"),
    [
        (0, [], True),
        (1, [], False),
        (1, ["steady"], True),
        (2, ["steady"], False),
        (1, ["preemptible"], False),
        (1, ["leaving"], False),
        (1, ["draining"], False),
        (1, ["lost"], False),
        (2, ["steady", "steady", "preemptible"], True),
    ],
)
def test_only_replicas_above_min_may_go_where_they_can_be_taken_away(least, replicas, spare):
    kinds = {
        "steady": a_replica(),
        "preemptible": a_replica(on_preemptible=True),
        "leaving": a_replica(**DRAINED),
        "draining": a_replica("draining"),
        "lost": a_replica("lost"),
    }
    assert leaving.is_spare([kinds[kind] for kind in replicas], least) is spare


def test_placement_says_that_a_host_can_be_taken_away():
    spot = replace(a_node("n1"), preemptible=True)
    note = only(a_deployment(1), spot)
    assert note.note.startswith("waits for a place: n1 may be taken away: it takes batch and")
    expendable = a_deployment(1, need=replace(NEED, expendable=True))
    assert only(expendable, spot).placed.node == "n1"


def test_what_is_too_many_leaves_preemptible_hosts_first():
    pair = (a_replica("ready", 1), a_replica("ready", 2, node="n2", on_preemptible=True))
    drain = only(a_deployment(1, *pair), *ELSEWHERE)
    assert drain.replica_id == 2


def test_a_drain_without_a_deadline_has_the_usual_time():
    assert leaving.drain_by(a_replica("ready", state_at=ago(1))) is None
