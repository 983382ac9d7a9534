"""Nodes as operators want them: described, cordoned, drained, said to leave, struck off."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db.backends.postgresql.psycopg_any import NumericRange

from control.checks import Refused, Unknown
from control.fleet.nodes import actions, facts
from control.models import AuditEntry, Node, Replica, Reservation, SnapshotPart
from control.states import NodeState, Part, ReplicaState, ReservationState
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
WHO = {"by": "ann", "reason": "repair", "at": AT}


def in_seconds(seconds):
    return AT + timedelta(seconds=seconds)


@pytest.mark.django_db
def test_a_node_that_answers_is_not_struck_off_under_its_engines():
    node = a_node(at=AT)
    a_replica(a_deployment(), node, at=AT)
    actions.cordon("n1", True, **WHO)
    actions.cordon("n1", True, **WHO)
    assert [entry.action for entry in AuditEntry.objects.all()] == ["cordon node"]
    with pytest.raises(Refused, match="cordon and drain it first"):
        actions.remove_node("n1", **WHO)


@pytest.mark.django_db
@pytest.mark.parametrize("state", [ReplicaState.LOST, ReplicaState.READY, ReplicaState.DRAINING])
def test_striking_off_a_lost_node_frees_what_was_booked_on_it(state):
    node = a_node(at=AT, state=NodeState.LOST)
    device = a_device(node, 100, at=AT)
    replica = a_replica(a_deployment(), node, at=AT, state=state)
    Reservation.objects.create(device=device, replica=replica, memory=NumericRange(0, 50))
    actions.remove_node("n1", **WHO)
    replica.refresh_from_db()
    assert replica.state == ReplicaState.STOPPED
    assert Reservation.objects.get().state == ReservationState.RELEASED
    assert Node.objects.get().state == NodeState.REMOVED
    with pytest.raises(Unknown):
        actions.remove_node("n1", **WHO)


@pytest.mark.django_db
def test_a_drained_node_is_cordoned_and_shown_drained_when_nothing_is_left():
    node = a_node(at=AT)
    replica = a_replica(a_deployment(), node, at=AT)
    actions.drain_node("n1", **WHO)
    actions.drain_node("n1", **WHO)
    shown = facts.node("n1")
    assert (shown.cordoned, shown.draining, shown.drained) == (True, True, False)
    assert (shown.standing, shown.leaving_reason) == ("draining", "repair")
    Replica.objects.filter(pk=replica.pk).update(state=ReplicaState.STOPPED)
    assert facts.node("n1").standing == "drained"
    assert AuditEntry.objects.get().action == "drain node"


@pytest.mark.django_db
def test_uncordon_ends_a_drain_and_a_departure():
    a_node(at=AT)
    actions.leave("n1", 600, **WHO)
    actions.cordon("n1", False, **WHO)
    shown = facts.node("n1")
    assert (shown.standing, shown.draining, shown.leaving_by) == ("", False, None)


@pytest.mark.django_db
def test_a_host_that_goes_leaves_what_drains_no_more_time_than_it_has():
    node, deployment = a_node(at=AT), a_deployment()
    draining = {"state": ReplicaState.DRAINING, "at": AT}
    long = a_replica(deployment, node, generation=1, drain_by=in_seconds(500), **draining)
    short = a_replica(deployment, node, generation=2, drain_by=in_seconds(5), **draining)
    version = SnapshotPart.objects.get(pk=Part.REPLICAS).version
    actions.leave("n1", 120, **WHO)
    long.refresh_from_db()
    short.refresh_from_db()
    assert (long.drain_by, short.drain_by) == (in_seconds(100), in_seconds(5))
    assert SnapshotPart.objects.get(pk=Part.REPLICAS).version == version + 1
    shown = facts.node("n1")
    assert (shown.standing, shown.leaving_by) == ("leaving", in_seconds(120))


@pytest.mark.django_db
def test_the_same_instant_said_again_changes_nothing():
    a_node(at=AT)
    for _ in range(2):
        actions.leave_by("n1", in_seconds(60), **WHO)
    assert AuditEntry.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("seconds", [float("nan"), 10**9])
def test_a_departure_lies_within_a_week(seconds):
    a_node(at=AT)
    with pytest.raises(Refused, match="in_seconds"):
        actions.leave("n1", seconds, **WHO)
    assert facts.node("n1").leaving_by is None


@pytest.mark.django_db
def test_pool_and_labels_are_an_operators_and_kept_when_the_node_joins_again():
    a_node(at=AT)
    actions.describe("n1", pool="spot", labels={"preemptible": "true"}, **WHO)
    actions.describe("n1", pool="spot", **WHO)
    shown = facts.node("n1")
    assert (shown.pool, shown.labels) == ("spot", {"preemptible": "true"})
    [entry] = AuditEntry.objects.all()
    assert (entry.before["pool"], entry.after["pool"]) == ("default", "spot")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"pool": "a b"}, "pool"),
        ({"labels": {"a b": "x"}}, "labels.a b"),
        ({"labels": {"zone": "x" * 64}}, "labels.zone"),
        ({"labels": {f"l{n}": "x" for n in range(33)}}, "labels"),
    ],
)
def test_a_description_that_cannot_be_is_refused_by_its_field(wanted, field):
    a_node(at=AT)
    with pytest.raises(Refused) as refused:
        actions.describe("n1", **wanted, **WHO)
    assert refused.value.problems[0].field == field


@pytest.mark.parametrize(
    ("labels", "preemptible"),
    [
        ({}, False),
        ({"preemptible": "true"}, True),
        ({"preemptible": ""}, True),
        ({"preemptible": "no"}, False),
        ({"zone": "a"}, False),
    ],
)
def test_preemptible_is_what_an_operator_says(labels, preemptible):
    assert Node(name="n1", labels=labels).is_preemptible is preemptible
