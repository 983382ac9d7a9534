"""A pin that is changed holds for what runs already: replaced there first, then drained."""

from dataclasses import replace

import pytest

from control.models import Deployment, Replica
from control.reconcile import facts, loop, pins
from control.reconcile.rules import plan
from control.states import ReplicaState
from tests.placement.world import AT, a_host, a_launch, wants
from tests.reconcile.worlds import a_replica


@pytest.mark.parametrize(
    ("replica", "node", "uuids", "held", "why"),
    [
        (a_replica(), "", (), (), ""),
        (a_replica(), "n1", (), (), ""),
        (a_replica(), "n2", (), (), "is on n1, and its deployment is pinned to n2"),
        (a_replica(), "", ("A", "B"), ("A",), ""),
        (a_replica(), "", ("B",), ("A", "B"), "holds A, which its deployment does not name"),
        (a_replica(ReplicaState.PENDING, node=""), "n2", ("B",), (), ""),
    ],
)
def test_who_is_outside_its_pins(replica, node, uuids, held, why):
    assert pins.why_outside(replica, node, uuids, held).startswith(why)
    [marked] = pins.marked([replica], node, uuids, {replica.id: held})
    assert (marked == replica) is (why == "")
    assert marked.is_current is (why == "")


@pytest.fixture
def hosts(db):
    return [a_host("n1", cards=2), a_host("n2", cards=1)]


@pytest.fixture
def running(hosts):
    """On the first card of n1."""
    return a_launch(wants("d"), hosts[0].devices.order_by("index").first())


def a_successor():
    """Launched by the tick, and ready."""
    assert loop.tick(AT)
    found = Replica.objects.exclude(generation=1).get()
    Replica.objects.filter(pk=found.pk).update(state=ReplicaState.READY, ready_at=AT)
    return found


def test_a_node_pinned_later_gets_the_successor_before_the_old_one_is_drained(running):
    assert loop.tick(AT) == []
    Deployment.objects.update(node="n2")
    assert a_successor().node.name == "n2"
    running.refresh_from_db()
    assert running.state == ReplicaState.READY
    loop.tick(AT)
    running.refresh_from_db()
    assert running.state == ReplicaState.DRAINING
    assert "pinned to n2; the new one is ready" in running.reason
    assert loop.tick(AT) == []


def test_devices_named_later_get_the_successor(running):
    Deployment.objects.update(placement={"share": "shared", "devices": ["GPU-n1-1"]})
    successor = a_successor()
    assert [it.device.uuid for it in successor.reservations.all()] == ["GPU-n1-1"]
    loop.tick(AT)
    running.refresh_from_db()
    assert running.state == ReplicaState.DRAINING


def test_a_pin_where_there_is_no_place_leaves_it_serving_and_says_so(running):
    Deployment.objects.update(node="nowhere")
    loop.tick(AT)
    running.refresh_from_db()
    assert running.state == ReplicaState.READY
    assert "nowhere is no node that has joined" in Deployment.objects.get().note
    seen = facts.world(AT)
    assert plan(replace(seen, nodes=seen.nodes)) == []
