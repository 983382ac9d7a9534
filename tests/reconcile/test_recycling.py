"""A replica is replaced anew when it has served long enough: its successor first, one at a time."""

import pytest

from control.fleet.recycle import Recycle, problems
from control.reconcile.recycling import why
from control.reconcile.world import Drain, Note, Start
from control.states import ReplicaState
from tests.reconcile.worlds import AT, GIB, a_deployment, a_node, a_replica, ago, failed, only

CALLS = Recycle(calls=1000)


def worn(generation=1, **fields):
    return a_replica(generation=generation, **({"ready_at": ago(5000), "calls": 1000} | fields))


def fresh(generation=1, **fields):
    return a_replica(generation=generation, **({"ready_at": ago(5000)} | fields))


@pytest.mark.parametrize(
    ("wanted", "fields", "said"),
    [
        (CALLS, {"calls": 999}, ""),
        (CALLS, {"calls": 1000}, "has served 1,000 calls of 1,000"),
        (Recycle(hours=2), {"ready_at": ago(7199)}, ""),
        (Recycle(hours=2), {"ready_at": ago(7200)}, "has been ready for 2.0 h of 2 h"),
        (Recycle(hours=2), {"ready_at": None}, ""),
        (Recycle(host_memory_growth=0.5), memory := {"host_memory_ready_bytes": 4 * GIB}, ""),
        (Recycle(host_memory_growth=0.5), memory | {"host_memory_bytes": 5 * GIB}, ""),
        (
            Recycle(host_memory_growth=0.5),
            memory | {"host_memory_bytes": 6 * GIB},
            "holds 50% more of the host's memory than when it became ready",
        ),
        (Recycle(calls=1000, hours=1), {"ready_at": ago(3600), "calls": 7}, "has been ready"),
    ],
)
def test_why_it_is_replaced(wanted, fields, said):
    assert why(a_replica(**fields), wanted, AT).startswith(said)
    assert bool(why(a_replica(**fields), wanted, AT)) == bool(said)


def test_a_successor_is_launched_first():
    step = only(a_deployment(2, worn(1), fresh(2), recycle=CALLS))
    assert isinstance(step, Start)
    assert step.generation == 3
    assert step.reason.startswith("successor of #1, which has served 1,000 calls")


@pytest.mark.parametrize("state", ["placed", "preparing", "starting", "loading", "warming"])
def test_while_the_successor_starts_nothing_is_drained(state):
    coming = a_replica(ReplicaState(state), generation=3)
    assert only(a_deployment(2, worn(1), worn(2), coming, recycle=CALLS)) is None


def test_when_the_successor_is_ready_the_worn_one_drains():
    step = only(a_deployment(2, fresh(1), worn(2), fresh(3), recycle=CALLS))
    assert step == Drain(2, "is replaced anew: it has served 1,000 calls of 1,000")


def test_the_next_one_waits_until_the_first_is_gone():
    draining = worn(1, state=ReplicaState.DRAINING)
    assert only(a_deployment(2, draining, worn(2), fresh(3), recycle=CALLS)) is None
    step = only(a_deployment(2, worn(2), fresh(3), recycle=CALLS))
    assert isinstance(step, Start)


@pytest.mark.parametrize(
    "replicas",
    [
        (worn(1), a_replica(ReplicaState.STARTING, generation=2)),
        (worn(1), a_replica(ReplicaState.UNHEALTHY, generation=2, ready_at=ago(9))),
        (worn(1, is_current=False), fresh(2)),
        (fresh(1), fresh(2)),
    ],
    ids=["one starts", "one is unhealthy", "another version is rolled out", "none is worn"],
)
def test_no_successor_is_launched_while(replicas):
    step = only(a_deployment(2, *replicas, recycle=CALLS))
    assert not isinstance(step, Start) or "successor" not in step.reason


def test_a_successor_that_fails_is_backed_off_while_the_worn_one_serves():
    """The worn one is stable, but it was so before the failures: they are not forgiven."""
    deployment = a_deployment(
        1, worn(1), recycle=CALLS, ended=(failed(1), failed(5), failed(10)), generation=4
    )
    step = only(deployment)
    assert not isinstance(step, Start | Drain)
    assert "failed 3 times in a row" in step.note


def test_without_a_place_for_the_successor_it_serves_on_and_says_so():
    step = only(a_deployment(1, worn(1), recycle=CALLS), a_node(blocked="is cordoned"))
    assert isinstance(step, Note)
    assert step.note.startswith("successor of #1, which has served 1,000 calls of 1,000, which")


def test_fewer_wanted_while_a_successor_starts_takes_the_one_that_serves_nobody():
    coming = a_replica(ReplicaState.STARTING, generation=3)
    step = only(a_deployment(1, worn(1), worn(2), coming, recycle=CALLS))
    assert step.replica_id == 3


def test_an_external_engine_is_never_launched_anew():
    assert only(a_deployment(1, worn(1), recycle=CALLS, is_external=True)) is None


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (Recycle(calls=5), "recycle.calls"),
        (Recycle(hours=0), "recycle.hours"),
        (Recycle(host_memory_growth=-1), "recycle.host_memory_growth"),
    ],
)
def test_limits_that_would_only_load_models(wanted, field):
    assert [problem.field for problem in problems("recycle", wanted)] == [field]
