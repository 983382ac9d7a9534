"""`weir node VERB`, as an operator types it."""

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from control.fleet.nodes import facts
from control.models import AuditEntry, Node
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(settings, tmp_path):
    settings.WEIR_HOME = tmp_path
    settings.WEIR_NODE_NAME = "n1"


def weir_node(capsys, *words):
    call_command("node", *words)
    return capsys.readouterr().out


def test_a_host_joins_and_joins_again_as_the_same(capsys):
    said = weir_node(
        capsys, "join", "--pool", "spot", "--label", "zone=a", "--label", "preemptible"
    )
    assert "n1  ready  pool spot  preemptible=true,zone=a" in said
    weir_node(capsys, "join")
    assert (facts.node("n1").pool, facts.node("n1").labels["zone"]) == ("spot", "a")
    assert Node.objects.count() == 1


def test_a_second_claimant_is_refused_and_told_what_to_do(capsys, settings, tmp_path):
    weir_node(capsys, "join")
    settings.WEIR_HOME = tmp_path / "another"
    with pytest.raises(CommandError, match="WEIR_NODE_NAME"):
        call_command("node", "join")


def test_the_list_tells_nodes_their_devices_and_what_is_said_of_them(capsys):
    node = a_node("n2", at=timezone.now(), labels={"zone": "b"})
    a_device(node, 3 << 30, at=timezone.now(), memory_free_bytes=1 << 30, error="is ill")
    weir_node(capsys, "drain", "n2", "--reason", "repair")
    said = weir_node(capsys, "list")
    assert "n2  ready  drained  pool default  zone=b  0 live replicas\n" in said
    assert "cpu-n2  RAM  3.0 GiB  1.0 free  is ill" in said
    [entry] = AuditEntry.objects.all()
    assert (entry.action, entry.reason) == ("drain node", "repair")


def test_labels_are_set_and_taken_away(capsys):
    a_node("n2", at=timezone.now(), labels={"zone": "b", "rack": "1"})
    weir_node(capsys, "label", "n2", "zone=c", "rack-", "preemptible")
    assert facts.node("n2").labels == {"zone": "c", "preemptible": "true"}
    weir_node(capsys, "pool", "n2", "big")
    assert facts.node("n2").pool == "big"


def test_cordon_uncordon_and_remove(capsys):
    node = a_node("n2", at=timezone.now())
    assert "cordoned" in weir_node(capsys, "cordon", "n2")
    assert "cordoned" not in weir_node(capsys, "uncordon", "n2")
    replica = a_replica(a_deployment(), node, at=timezone.now())
    with pytest.raises(CommandError, match="cordon and drain it first"):
        call_command("node", "remove", "n2")
    replica.delete()
    assert weir_node(capsys, "remove", "n2") == ""
    with pytest.raises(CommandError, match="there is no node 'n2'"):
        call_command("node", "cordon", "n2")


@pytest.mark.parametrize(
    ("words", "seconds"), [("120s", 120), ("2m", 120), ("90", 90), ("1h", 3600)]
)
def test_this_host_leaves_in_so_long(capsys, words, seconds):
    a_node("n1", at=timezone.now())
    before = timezone.now()
    weir_node(capsys, "leaving", "--in", words)
    left = (facts.node("n1").leaving_by - before).total_seconds()
    assert seconds <= left < seconds + 60


def test_a_time_that_is_none_is_refused(capsys):
    with pytest.raises(CommandError, match="write 120s"):
        call_command("node", "leaving", "--in", "soon")
