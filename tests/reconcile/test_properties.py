"""Whatever crashes, is lost, comes twice or late, and however clocks step: it converges, books no
memory twice, and ends no running call before its deadline."""

from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from control.reconcile.rules import plan
from tests.reconcile.model import Model

SETTLE_TICKS_MAX = 400
SETTLE_SECONDS = 30
pick = st.integers(0, 1_000_000)


class Fleet(RuleBasedStateMachine):
    @initialize(machines=st.integers(1, 3), deployments=st.integers(1, 3), count=st.integers(1, 2))
    def begin(self, machines, deployments, count):
        self.model = Model(machines, deployments, count)
        self.late = []  # plans that another reconciler made and has not carried out

    # --- time, and those who act ---

    @rule(seconds=st.sampled_from([1, 1, 1, 5, 20, 70, 130]))
    def time_passes(self, seconds):
        self.model.at += timedelta(seconds=seconds)

    @rule(minutes=st.integers(-60, 60))
    def the_clock_steps(self, minutes):
        self.model.at += timedelta(minutes=minutes)

    @rule(times=st.integers(1, 8))
    def all_is_well_for_a_while(self, times):
        for _ in range(times):
            self.model.at += timedelta(seconds=1)
            self.model.beat()
            self.model.tick()

    @rule()
    def reconcile(self):
        self.model.tick()

    @rule()
    def another_plans(self):
        self.late.append((plan(self.model.world()), self.model.states()))

    @precondition(lambda self: getattr(self, "late", None))
    @rule(which=pick)
    def and_acts_late(self, which):
        self.model.carry_out(*self.late.pop(which % len(self.late)))

    @rule()
    def agents_beat(self):
        self.model.beat()

    @rule(which=pick, times=st.integers(1, 2))
    def a_message_comes_whenever_and_perhaps_twice(self, which, times):
        if rows := list(self.model.rows):
            for _ in range(times):
                self.model.look(rows[which % len(rows)])

    # --- what goes wrong ---

    @rule(which=pick)
    def an_agent_dies_or_returns(self, which):
        machine = self.model.machines[which % len(self.model.machines) + 1]
        machine.up = not machine.up

    @rule(which=pick)
    def an_engine_crashes(self, which):
        if engines := sorted(self.model.engines):
            self.model.engines.pop(engines[which % len(engines)])

    @rule(which=pick)
    def an_engine_hangs(self, which):
        if engines := sorted(self.model.engines):
            self.model.engines[engines[which % len(engines)]].hung = True

    # --- what people and tenants do ---

    @rule(which=pick, count=st.integers(0, 2))
    def someone_wants_other_numbers(self, which, count):
        self.model.wanted[which % len(self.model.wanted) + 1].count = count

    @rule(which=pick, level=st.integers(0, 1))
    def someone_wants_sleep_or_not(self, which, level):
        self.model.wanted[which % len(self.model.wanted) + 1].sleep = level

    @rule(gateway=st.sampled_from(["g1", "g2"]), calls=st.sampled_from([1, 1, 60]))
    def calls_come(self, gateway, calls):
        for _ in range(calls):
            self.model.call(gateway)

    @rule()
    def calls_end(self):
        self.model.over()

    @rule(gateway=st.sampled_from(["g1", "g2"]))
    def a_gateway_hears(self, gateway):
        self.model.hear(gateway)

    @invariant()
    def memory_is_booked_once(self):
        if hasattr(self, "model"):
            self.model.check()

    def teardown(self):
        if hasattr(self, "model"):
            self.settles()

    def settles(self):
        """Nothing more goes wrong; and the fleet is large enough for what is wanted."""
        model = self.model
        for machine in model.machines.values():
            machine.up = True
        for wanted in model.wanted.values():
            wanted.count = min(wanted.count, 1)
        model.over()
        for _ in range(SETTLE_TICKS_MAX):
            model.at += timedelta(seconds=SETTLE_SECONDS)
            model.beat()
            model.tick()
            model.check()
            model.over()
            if model.at_rest():
                return
        raise AssertionError(f"it does not come to rest: {model.rows}, {model.wanted}")


Fleet.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestFleet = Fleet.TestCase
