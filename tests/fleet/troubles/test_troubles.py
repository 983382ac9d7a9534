"""What is open, since when, and when it is over."""

from datetime import timedelta

import pytest

from control.fleet.troubles import facts, rules
from control.fleet.troubles.rules import Kind, Wanted
from control.models import Deployment
from control.reconcile import actions
from control.reconcile.world import Note
from control.states import Hindrance, NodeState
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica
from tests.placement.world import AT

LONG, SHORT = AT - timedelta(minutes=6), AT - timedelta(minutes=4)


def wanted(**fields):
    plain = {
        "name": "d",
        "note": "",
        "hindrance": "",
        "hindered_at": None,
        "is_interactive": False,
        "replicas_wanted": 2,
        "replicas_max": 2,
        "nodes": 2,
    }
    return Wanted(**plain | fields)


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({}, []),
        ({"hindrance": Hindrance.UNPLACED, "hindered_at": SHORT}, []),
        ({"hindrance": Hindrance.UNPLACED, "hindered_at": LONG}, [Kind.UNPLACED]),
        ({"hindrance": Hindrance.BACK_OFF, "hindered_at": LONG}, []),
        ({"hindrance": Hindrance.GIVEN_UP, "hindered_at": SHORT}, [Kind.CRASH_LOOP]),
        ({"note": "crash loop: failed 5 times in a row"}, [Kind.CRASH_LOOP]),  # others serve
        ({"is_interactive": True}, []),
        ({"is_interactive": True, "replicas_wanted": 1}, [Kind.FEW_REPLICAS]),
        ({"is_interactive": True, "nodes": 1}, [Kind.FEW_REPLICAS]),
        ({"replicas_wanted": 1}, []),
    ],
)
def test_what_of_a_deployment_is_open(fields, kinds):
    assert [one.kind for one in rules.of_deployment(wanted(**fields), AT)] == kinds


def test_nodes_and_cards_are_open_until_they_are_back(db):
    node = a_node(at=AT, state=NodeState.LOST, state_at=LONG, note="no heartbeat for 60 s")
    told = {"quarantined_at": SHORT, "quarantine_reason": "Xid 79"}
    a_device(node, 1 << 30, at=AT, kind="gpu", name="card 0", **told)
    lost, away = facts.troubles(AT)
    assert (lost.kind, lost.about, lost.since, lost.is_urgent) == ("node lost", "n1", LONG, True)
    assert lost.what == "no heartbeat for 60 s; its replicas are started elsewhere"
    assert (away.kind, away.what, away.is_urgent) == ("quarantine", "card 0: Xid 79", False)
    node.devices.update(quarantined_at=None)
    type(node).objects.update(state=NodeState.READY)
    assert facts.troubles(AT) == []


def test_the_instant_of_a_hindrance_is_kept_while_its_words_change(db):
    row = a_deployment(priority="interactive", replicas_max=3, wanted=3)
    a_replica(row, a_node(at=AT), at=AT)
    actions.carry_out(Note(row.pk, "n1 is full", Hindrance.UNPLACED), by="test", at=AT)
    first = Deployment.objects.get().hindered_at
    assert first is not None
    actions.carry_out(Note(row.pk, "n1 is cordoned", Hindrance.UNPLACED), by="test", at=AT)
    assert Deployment.objects.get().hindered_at == first
    kinds = [one.kind for one in facts.troubles(first + timedelta(minutes=5))]
    assert kinds == [Kind.UNPLACED, Kind.FEW_REPLICAS]
    actions.carry_out(Note(row.pk, ""), by="test", at=AT)
    assert Deployment.objects.get().hindered_at is None
