"""A node has its name to itself, and comes back as itself."""

from datetime import timedelta

import pytest
from django.utils import timezone

from control.fleet import node as nodes
from control.models import IllegalMove, Node
from control.states import NodeState


@pytest.fixture(autouse=True)
def home(settings, tmp_path):
    settings.WEIR_HOME = tmp_path
    return tmp_path


@pytest.mark.django_db
def test_joins_and_joins_again_as_the_same():
    first = nodes.join("n1")
    Node.objects.update(state=NodeState.LOST)
    again = nodes.join("n1")
    assert again.pk == first.pk
    assert again.state == NodeState.READY


@pytest.mark.django_db
def test_a_second_claimant_is_refused_and_told(settings, tmp_path):
    nodes.join("n1")
    settings.WEIR_HOME = tmp_path / "another"
    with pytest.raises(nodes.NameTaken, match="WEIR_NODE_NAME"):
        nodes.join("n1")


@pytest.mark.django_db
def test_a_node_moves_as_its_states_allow_and_once():
    node, same = nodes.join("n1"), Node.objects.get(name="n1")
    at = timezone.now()
    assert node.move(NodeState.UNKNOWN, reason="silent", at=at)
    assert not same.move(NodeState.UNKNOWN, reason="silent", at=at)  # somebody was first
    with pytest.raises(IllegalMove, match="unknown -> unknown"):
        node.move(NodeState.UNKNOWN, reason="silent", at=at)
    node.refresh_from_db()
    assert (node.state, node.note, node.state_at) == ("unknown", "silent", at)


@pytest.mark.django_db
def test_a_removed_name_is_free_again(settings, tmp_path):
    nodes.join("n1")
    Node.objects.update(state=NodeState.REMOVED)
    settings.WEIR_HOME = tmp_path / "another"
    assert nodes.join("n1").state == NodeState.READY


@pytest.mark.django_db
@pytest.mark.parametrize(("ago_seconds", "stays_out"), [(60, False), (-60, True)])
def test_a_host_that_left_and_is_here_again_takes_replicas(ago_seconds, stays_out):
    nodes.join("n1")
    by = timezone.now() - timedelta(seconds=ago_seconds)
    Node.objects.update(cordoned=True, draining=True, leaving_by=by, pool="spot")
    node = nodes.join("n1")
    assert (node.cordoned, node.draining, bool(node.leaving_by)) == (stays_out,) * 3
    assert node.pool == "spot"


@pytest.mark.django_db
def test_a_heartbeat_is_the_databases_time_and_ends_with_a_removal():
    node = nodes.join("n1")
    assert nodes.heartbeat(node)
    node.refresh_from_db()
    assert abs((timezone.now() - node.heartbeat_at).total_seconds()) < 60
    Node.objects.update(state=NodeState.REMOVED)
    assert not nodes.heartbeat(node)


def test_one_worker_to_a_home():
    lock = nodes.hold_home()
    with pytest.raises(nodes.NameTaken, match="another node worker runs"):
        nodes.hold_home()
    lock.close()
    nodes.hold_home().close()
