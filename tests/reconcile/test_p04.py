"""P04 in its own times, by the clock: a node cut off for half a lease, one and a half, and ten.

Its numbers are replaced by the house's: a silent node's engines are never stopped for lack of
control; replacements go to other devices, its bookings stay until it returns. How real processes
take it is played, shorter, on three hosts.
"""

from datetime import timedelta

import pytest

from control.reconcile.rules import plan
from control.reconcile.world import Policy
from control.states import REPLICA_FINAL, NodeState, ReplicaState
from tests.reconcile.model import Model

LEASE_SECONDS = Policy().lost_seconds
TEN_MINUTES = 600
S = ReplicaState
UP = frozenset({"agents", "control"})


class Played(Model):
    """Two machines and a replica on the first, second by second."""

    def __init__(self):
        super().__init__(machines=2, deployments=1)
        for _ in range(30):
            self.at += timedelta(seconds=1)
            self.beat()
            self.tick()
        assert self.at_rest()
        [self.first] = self.rows.values()
        self.here = self.machines[self.first.node]
        self.call("g1")

    def pass_by(self, seconds, *, up=UP):
        """Data traffic works all the while; with the database away neither is up."""
        seen = []
        for _ in range(int(seconds)):
            self.at += timedelta(seconds=1)
            if "agents" in up:
                self.beat()
            if "control" in up:
                self.tick()
            self.check()
            seen.append((self.here.state, self.first.state))
        return seen

    def cut(self, seconds):
        """With control restarted in the middle: what the one before planned, it does at the end."""
        self.here.up = False
        seen = self.pass_by(seconds // 2)
        late = plan(self.world()), self.states()
        seen += self.pass_by(5, up={"agents"})
        seen += self.pass_by(seconds - seconds // 2 - 5)
        self.carry_out(*late)
        self.check()
        return seen

    def mend(self):
        self.here.up = True
        self.over()
        self.pass_by(60)
        assert self.at_rest(), self.rows

    def living(self):
        return [row for row in self.rows.values() if row.state not in REPLICA_FINAL]


def test_p04_half_a_lease_changes_nothing():
    played = Played()
    engine = played.engines[played.first.id]
    seen = played.cut(LEASE_SECONDS * 0.5)
    assert {node for node, _ in seen} == {NodeState.READY, NodeState.UNKNOWN}
    assert {state for _, state in seen} == {S.READY}
    assert engine.calls == 1
    played.mend()
    assert (list(played.rows), played.engines) == ([played.first.id], {played.first.id: engine})
    assert played.here.state is NodeState.READY


def test_p04_one_and_a_half_leases_place_another_elsewhere_and_stop_nothing():
    played = Played()
    engine = played.engines[played.first.id]
    seen = played.cut(LEASE_SECONDS * 1.5)
    states = [node for node, _ in seen]
    assert states.index(NodeState.UNKNOWN) == Policy().unknown_seconds
    assert states.index(NodeState.LOST) == LEASE_SECONDS
    assert played.first.state is S.LOST
    # The old one runs, with its call and its memory; the new one is on another machine's.
    assert played.engines[played.first.id] is engine
    assert engine.calls == 1
    assert played.first.held
    [second] = [row for row in played.living() if row is not played.first]
    assert (second.state, second.node != played.first.node) == (S.READY, True)
    assert states.index(NodeState.LOST) < (second.ready_at - played.first.ready_at).total_seconds()


@pytest.mark.parametrize("leases", [1.5, 10])
def test_p04_after_its_return_there_is_no_orphan_one_replica_a_row_and_books_that_agree(leases):
    played = Played()
    played.cut(LEASE_SECONDS * leases)
    assert len(played.rows) == 2  # however long: one replacement
    played.mend()
    [serving] = played.living()
    assert serving.state is S.READY
    assert set(played.engines) == {serving.id}
    assert [row.id for row in played.rows.values() if row.held] == [serving.id]
    assert {machine.state for machine in played.machines.values()} == {NodeState.READY}


@pytest.mark.parametrize("away", ["control", "database, heard first", "database, asked first"])
def test_p04_ten_minutes_without_control_or_database_launch_and_stop_nothing(away):
    """Without the database no heartbeat is written, so that all seem silent, at once: how long
    somebody is silent counts from when that was noticed."""
    played = Played()
    engine = played.engines[played.first.id]
    played.pass_by(TEN_MINUTES, up={"agents"} if away == "control" else frozenset())
    if away == "database, asked first":
        played.tick()
        assert played.here.state is NodeState.UNKNOWN
    assert engine.calls == 1
    played.pass_by(30)
    assert list(played.rows) == [played.first.id]
    assert played.engines == {played.first.id: engine}
    assert played.at_rest()


def test_p04_who_dies_while_control_is_away_is_replaced_once():
    played = Played()
    played.pass_by(TEN_MINUTES // 2, up={"agents"})
    del played.engines[played.first.id]
    played.pass_by(TEN_MINUTES // 2, up={"agents"})
    assert played.first.state is S.FAILED
    played.pass_by(60)
    assert played.at_rest()
    assert len(played.rows) == 2
