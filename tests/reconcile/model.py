"""A world of values in which plans are carried out: nodes, launches, processes, gateways, calls."""

from control.fleet.draining.rules import Draining, GatewayFacts, Stop, judge
from control.reconcile import world as seen
from control.reconcile.rules import plan
from control.states import (
    REPLICA_BEFORE_READY,
    REPLICA_FINAL,
    REPLICA_MOVES,
    DeploymentState,
    ReplicaState,
)
from tests.reconcile.model_hosts import ANYWHERE, Hosts
from tests.reconcile.model_rows import Engine, Row, Wanted, a_machine
from tests.reconcile.model_sleep import DRAIN, Sleepers, overlap
from tests.reconcile.worlds import AT

S = ReplicaState
BEFORE_PROCESS = {S.PLACED: S.PREPARING, S.PREPARING: S.STARTING}
TO = {seen.Drain: S.DRAINING, seen.Fail: S.FAILED, seen.Lose: S.LOST, seen.Stop: S.STOPPED}
NEXT = {S.STARTING: S.LOADING, S.LOADING: S.WARMING, S.WARMING: S.READY}


class KilledTooEarly(AssertionError):
    """A call that ran, before the deadline of its replica."""


class Model(Sleepers, Hosts):
    def __init__(self, machines=3, deployments=2, count=1):
        self.at = AT
        self.version = 1  # of the replicas' part
        self.machines = {n: a_machine(n) for n in range(1, machines + 1)}
        self.wanted = {n: Wanted(n, count) for n in range(1, deployments + 1)}
        self.rows: dict[int, Row] = {}
        self.engines: dict[int, Engine] = {}  # processes, by launch
        self.gateways = {"g1": (1, frozenset()), "g2": (1, frozenset())}  # version, may call

    # --- control ---

    def world(self):
        live = [row for row in self.rows.values() if row.state not in REPLICA_FINAL]
        return seen.World(
            at=self.at,
            deployments=tuple(self._deployment(one, live) for one in self.wanted.values()),
            nodes=tuple(self._node(one) for one in self.machines.values()),
            heartbeats=tuple(
                seen.Heartbeat(m.id, f"n{m.id}", m.state, m.heartbeat_at, m.state_at)
                for m in self.machines.values()
            ),
        )

    def tick(self):
        """What was there as the plan was made is there as it is carried out at once."""
        actions = plan(self.world())
        done = self.carry_out(actions, self.states())
        assert not [it for it in actions if isinstance(it, seen.Start) and it not in done]
        return done

    def states(self):
        return {row.id: row.state for row in self.rows.values()}

    def carry_out(self, actions, states):
        """Any time after the plan was made, perhaps of another reconciler."""
        return [action for action in actions if self._carry_out(action, states)]

    def _carry_out(self, action, states):
        match action:
            case seen.Start():
                return self._start(action)
            case seen.MoveNode():
                return self._move_node(action)
            case seen.BackOff() | seen.Note():
                self._note(action)
                return True
            case seen.Wake():
                return self._wake(action, states)
        id_, old = action.replica_id, states[action.replica_id]
        moved = self.move(id_, TO[type(action)], old)
        if moved and isinstance(action, seen.Drain):
            self.rows[id_].drain_by = self.at + DRAIN
            self.rows[id_].sleep_level = action.sleep
        return moved

    def _move_node(self, action):
        machine = self.machines[action.node_id]
        if machine.state is not action.old:
            return False
        machine.state, machine.state_at = action.new, self.at
        return True

    def _note(self, action):
        one = self.wanted[action.deployment_id]
        one.note, one.hindrance = action.note, action.hindrance
        if isinstance(action, seen.BackOff):
            one.launch_after = action.launch_after

    def _start(self, action):
        """Refused whole, as constraints of the database do: a generation twice, memory twice."""
        of_it = [row for row in self.rows.values() if row.deployment == action.deployment_id]
        if any(row.generation == action.generation for row in of_it):
            return False
        held = tuple((s.device_id, *bounds) for s in action.placed.shares for bounds in s.ranges)
        if any(overlap(new, old) for new in held for old in self.held()):
            return False
        id_, ram = len(self.rows) + 1, action.placed.host_bytes
        node = action.placed.node_id
        if ram > self.ram_free(node):
            return False
        self.rows[id_] = Row(id_, action.deployment_id, action.generation, node, held, ram)
        self.rows[id_].state_at = self.at
        self._note(seen.Note(action.deployment_id, ""))
        return True

    def move(self, id_, to, old):
        row = self.rows[id_]
        if row.state is not old or to not in REPLICA_MOVES[old]:
            return False
        row.state, row.state_at = to, self.at
        self.version += 1
        if to is S.READY:
            row.ready_at = row.ready_at or self.at
        if to is S.DRAINING:
            row.unrouted = self.version
        if to in REPLICA_FINAL:
            row.ended_at = self.at
        return True

    def held(self):
        return [share for row in self.rows.values() for share in row.held]

    # --- a node's agent: one look at one launch; messages that come twice or late are looks too ---

    def look(self, id_):
        row = self.rows[id_]
        if not self.machines[row.node].up:
            return
        engine, state = self.engines.get(id_), row.state
        if state in BEFORE_PROCESS:
            self._prepare(row)
        elif state is S.LOST:
            self._return(row, engine)
        elif state is S.DRAINING:
            self._drain(row, engine)
        elif state in REPLICA_FINAL:
            self._end(row)
        else:
            self._judge(row, engine)

    def _prepare(self, row):
        started = row.state is S.PREPARING
        if self.move(row.id, BEFORE_PROCESS[row.state], row.state) and started:
            assert row.held, "a process without memory of its own"
            self.engines[row.id] = Engine()

    def _judge(self, row, engine):
        if engine is None:
            self.move(row.id, S.FAILED, row.state)
        elif row.state is S.WAKING:
            engine.asleep, row.awake = False, ()
            self.move(row.id, S.WARMING, row.state)
        elif row.state in NEXT:
            self.move(row.id, NEXT[row.state], row.state)
        elif engine.hung:
            self.move(row.id, S.UNHEALTHY if row.state is S.READY else S.FAILED, row.state)
        elif row.state is S.UNHEALTHY:
            self.move(row.id, S.READY, row.state)

    def _drain(self, row, engine):
        told = [
            GatewayFacts(name, version, 0.5, engine.calls if engine else 0)
            for name, (version, _) in self.gateways.items()
        ]
        draining = Draining(
            since=row.state_at,
            by=row.drain_by,
            unrouted_version=row.unrouted,
            has_served=row.ready_at is not None,
            is_alive=engine is not None,
            engine_calls=engine.calls if engine else None,
        )
        if not isinstance(judge(draining, told, self.at), Stop):
            return
        if row.sleep_level and engine and not engine.calls and not engine.hung:
            self._sleep(row, engine)
        elif self.move(row.id, S.STOPPED, S.DRAINING):
            self._end(row)

    def _end(self, row):
        """Its processes first, then its memory."""
        engine = self.engines.pop(row.id, None)
        over = row.drain_by is not None and self.at >= row.drain_by
        if engine and engine.calls and not engine.hung and not over:
            raise KilledTooEarly(row)
        row.held = ()

    def beat(self):
        """A second of every agent that is up, and of the gateways' polls."""
        for machine in self.machines.values():
            if machine.up:
                machine.heartbeat_at = self.at
        for id_ in list(self.rows):
            self.look(id_)
        for name in self.gateways:
            self.hear(name)

    def hear(self, name):
        may = frozenset(row.id for row in self.rows.values() if row.state is S.READY)
        self.gateways[name] = (self.version, may)

    # --- tenants ---

    def call(self, name):
        """To whatever this gateway thinks is ready; one that does not answer it leaves."""
        for id_ in sorted(self.gateways[name][1]):
            if engine := self.engines.get(id_):
                engine.calls += 1
                self.rows[id_].calls += 1
                return

    def over(self):
        for engine in self.engines.values():
            if not engine.hung:
                engine.calls = 0

    # --- what must hold ---

    def check(self):
        for machine in self.machines.values():
            shares = [share for share in self.held() if share[0] == machine.id]
            assert not any(overlap(a, b) for n, a in enumerate(shares) for b in shares[n + 1 :])
            assert sum(upper - lower for _, lower, upper in shares) <= machine.total
            assert self.ram_free(machine.id) >= 0
        for id_, engine in self.engines.items():
            assert self.rows[id_].held, "its memory is offered while its process runs"
            assert not (engine.asleep and self.rows[id_].state is S.READY), "calls would hang"

    def at_rest(self):
        live = [row for row in self.rows.values() if row.state not in REPLICA_FINAL]
        counts = {d: [r for r in live if r.deployment == d] for d in self.wanted}
        ready = all(self._as_wanted(self.wanted[d], rows) for d, rows in counts.items())
        return ready and set(self.engines) == {row.id for row in live} and not plan(self.world())

    def _as_wanted(self, one, rows):
        sleeps = one.sleep and not one.count and [row.state for row in rows] == [S.ASLEEP]
        serve = len(rows) == one.count and all(row.state is S.READY for row in rows)
        return sleeps or serve

    # --- values for rules ---

    def _deployment(self, one, live):
        rows = [row for row in self.rows.values() if row.deployment == one.id]
        ended = [row for row in rows if row.state in REPLICA_FINAL]
        return seen.DeploymentFacts(
            id=one.id,
            state=DeploymentState.ACTIVE,
            version_id=one.id,
            wanted=one.count,
            need=ANYWHERE,
            note=one.note,
            hindrance=one.hindrance,
            launch_after=one.launch_after,
            generation=max((row.generation for row in rows), default=0),
            recycle=one.recycle,
            sleep=one.sleep,
            replicas=tuple(self._replica(row) for row in live if row.deployment == one.id),
            ended=tuple(
                seen.Ended(row.state, row.ended_at, row.ready_at, cause="crashed")
                for row in sorted(ended, key=lambda row: -row.generation)[:16]
            ),
        )

    def _replica(self, row):
        node = self.machines[row.node]
        return seen.ReplicaFacts(
            row.id,
            row.generation,
            row.state,
            row.state_at,
            node=f"n{node.id}",
            node_state=node.state,
            progress_at=row.state_at if row.state in REPLICA_BEFORE_READY else None,
            ready_at=row.ready_at,
            calls=row.calls,
            sleep_level=row.sleep_level,
        )
