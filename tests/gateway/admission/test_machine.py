"""Four processes and one real Valkey, each heard at its own pace: what holds whatever happens."""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
import redis
from django.conf import settings
from hypothesis import HealthCheck, Phase
from hypothesis import settings as how
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from control.gateway.admission import scripts
from control.gateway.admission.bundles import Taken
from control.gateway.admission.counters import Counters
from control.gateway.admission.rules import Hold, Used, checks_of
from control.gateway.admission.valkey import encode
from control.gateway.limits import Limits
from tests.gateway.admission.test_scripts import NOW, SECOND, START

PROCESSES = 4
LEASE_SECONDS = 10
IN, OUT = "input_tokens_per_minute", "output_tokens_per_minute"
SCOPES = (
    {"requests_per_minute": 400, IN: 60_000, "concurrent_calls": 120},
    {"requests_per_minute": 200, OUT: 60_000},
    {"concurrent_calls": 7},
)
CHECKS = (
    checks_of("t:1", SCOPES[0]) + checks_of("k:8", SCOPES[1]),  # all leased
    checks_of("t:1", SCOPES[0]) + checks_of("k:9", SCOPES[2]),  # one is always asked
)
PER_MINUTE = {"t:1": 400, "k:8": 200}
BLOCK = 4  # the larger of theirs
AT_ONCE = {"t:1": 120, "k:9": 7}


class Process:
    """A gateway process as far as its limits go, on a loop of its own: it hears when it runs."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.loop = asyncio.new_event_loop()
        self.counters = Counters(
            settings.REDIS_LIVE_URL,
            processes=PROCESSES,
            limits=Limits(lease_seconds=LEASE_SECONDS, counters_seconds=1000),
            clock=clock,
            steps=scripts.steps(NOW),
        )
        self.clock = clock
        self.calls: dict[str, tuple[Hold, Taken]] = {}  # that run
        self.stranded: set[str] = set()  # of those, whose slots no longer count
        self.unheard = 0  # calls that asked, and were not answered yet
        while not self.counters.shared:
            self.do(lambda: self.counters.sweep(clock()))
        self.hear()

    def do(self, act: Callable[[], None]) -> None:
        async def acts() -> None:
            act()

        self.loop.run_until_complete(acts())

    def hear(self) -> None:
        async def heard() -> None:
            while True:
                await asyncio.sleep(0)
                if not (self.counters.valkey._waiting or self.counters.valkey._unsent):
                    return

        self.loop.run_until_complete(asyncio.wait_for(heard(), 30))

    def say(self, word: bytes) -> None:
        """Behind all that it has sent so far."""
        self.do(lambda: self.counters.valkey.send(word, _ignore))

    def sweep(self) -> None:
        for _ in range(3):  # the third time it renews
            self.do(lambda: self.counters.sweep(self.clock()))
        self.hear()
        self.renewed_at = self.clock()

    def die(self) -> None:
        """Nothing is given back."""
        self.do(self.counters.valkey.close)
        self.loop.close()


def _ignore(reply: object) -> None:
    """Nobody waits for it."""


class Store:
    """What all processes count in, with a clock that only tests move."""

    def __init__(self) -> None:
        self.client = redis.Redis.from_url(settings.REDIS_LIVE_URL, decode_responses=True)
        self.client.flushdb()
        self.at = 0.0
        self.said: dict[int, int] = {}  # words of each, so far
        self.pass_time(0.0)

    def pass_time(self, seconds: float) -> None:
        self.at += seconds
        self.client.set("test:now", self.now())

    def read(self, processes: list[Process]) -> None:
        """All that they have sent: of two connections it may read either first."""
        for number, process in enumerate(processes):
            process.say(encode("INCR", f"test:read:{number}"))
            self.said[number] = self.said.get(number, 0) + 1
        until = time.monotonic() + 30
        for number, said in self.said.items():
            while int(self.client.get(f"test:read:{number}") or 0) < said:
                assert time.monotonic() < until

    def now(self) -> int:
        return int((int(START) + self.at) * SECOND)


@pytest.fixture
def two() -> Iterator[tuple[Store, list[Process]]]:
    store = Store()
    processes = [Process(lambda: store.at), Process(lambda: store.at)]
    yield store, processes
    for process in processes:
        process.die()


def granted(process: Process, checks: tuple, tokens: int) -> bool:
    answers: list[object] = []
    hold = Hold(checks, tokens)
    process.do(lambda: process.counters.take(f"call_{tokens}", hold, answers.append))
    process.hear()
    return isinstance(answers[0], Taken)


def test_what_is_leased_does_not_refill_while_it_is_held(two):
    """Else the one that holds it could spend it on top of a bucket that is full again."""
    store, (first, second) = two
    checks = checks_of("t:1", {IN: 60_000})
    assert granted(first, checks, 1)  # and leases 600
    store.pass_time(2.9)
    assert not granted(second, checks, 59_401)
    assert granted(second, checks, 59_400)
    assert granted(first, checks, 600)
    assert not granted(second, checks, 100)


def test_a_lease_that_ended_was_spent_at_its_end_as_far_as_anybody_knows(two):
    store, (first, second) = two
    checks = checks_of("t:1", {IN: 60_000})
    assert granted(first, checks, 1)
    store.pass_time(9.9)
    assert granted(first, checks, 290)  # above half, so it says nothing yet
    store.pass_time(0.2)
    assert not granted(second, checks, 59_501)
    assert granted(second, checks, 59_500)


class Machine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.store = Store()
        self.all = [self.process(skew) for skew in range(PROCESSES)]
        self.number = self.losses = self.never_heard = 0
        self.granted: list[tuple[float, Hold]] = []

    def process(self, skew: int) -> Process:
        made = Process(lambda: self.store.at + 1000.0 * skew)
        made.renewed_at = made.clock()
        return made

    # --- what happens ---

    @rule(
        by=st.integers(0, PROCESSES - 1),
        which=st.sampled_from([0, 0, 1]),
        count=st.integers(1, 60),
        tokens=st.sampled_from([0, 1, 50, 500, 5000]),
    )
    def calls_come(self, by: int, which: int, count: int, tokens: int) -> None:
        process, at = self.all[by], self.store.at
        hold = Hold(CHECKS[which], tokens, tokens)
        for _ in range(count):
            self.number += 1
            self.take(process, f"call_{self.number}", hold, at)

    def take(self, process: Process, call_id: str, hold: Hold, at: float) -> None:
        def on_answer(answer: object) -> None:
            process.unheard -= 1
            if isinstance(answer, Taken):
                self.granted.append((at, hold))
                process.calls[call_id] = (hold, answer)

        process.unheard += 1
        process.do(lambda: process.counters.take(call_id, hold, on_answer))

    @rule(by=st.integers(0, PROCESSES - 1), share=st.floats(0, 1), used=st.floats(0, 2))
    def calls_end(self, by: int, share: float, used: float) -> None:
        process = self.all[by]
        for call_id in list(process.calls)[: round(len(process.calls) * share)]:
            hold, taken = process.calls.pop(call_id)
            process.stranded.discard(call_id)
            tokens = round(hold.input_tokens * used)
            settle = process.counters.settle
            process.do(
                lambda c=call_id, h=hold, t=taken, u=tokens, s=settle: s(c, h, t, Used(u, u))
            )

    @rule(by=st.integers(0, PROCESSES - 1))
    def one_hears(self, by: int) -> None:
        self.all[by].hear()

    @rule(seconds=st.sampled_from([0.125, 1.0, 3.0, 9.0]), asleep=st.integers(0, 2 * PROCESSES))
    def time_passes(self, seconds: float, asleep: int) -> None:
        """One process may hear and do nothing meanwhile; a number beyond them is none."""
        self.store.read(self.all)
        self.store.pass_time(seconds)
        for number, process in enumerate(self.all):
            if process.clock() - process.renewed_at >= LEASE_SECONDS:
                process.stranded |= process.calls.keys()
                self.losses += 1
            if number != asleep:
                process.sweep()

    @rule(by=st.integers(0, PROCESSES - 1))
    def one_is_killed(self, by: int) -> None:
        self.losses += 1
        self.never_heard += self.all[by].unheard
        self.all[by].die()
        self.all[by] = self.process(by)

    # --- what holds ---

    @invariant()
    def no_window_grants_more_than_the_bucket_and_what_refills(self) -> None:
        for scope, most in PER_MINUTE.items():
            times = [at for at, hold in self.granted if any(c.scope == scope for c in hold.checks)]
            for number, since in enumerate(times):
                assert len(times) - number <= most + most / 60 * (self.store.at - since) + 1e-6

    @invariant()
    def no_more_run_at_once_than_may(self) -> None:
        for scope, most in AT_ONCE.items():
            live = [
                call_id
                for process in self.all
                for call_id, (hold, _) in process.calls.items()
                if call_id not in process.stranded and any(c.scope == scope for c in hold.checks)
            ]
            assert len(live) <= most
            assert self.counted(f"calls:{scope}") <= most

    @rule()
    def all_hear_and_nothing_was_taken_but_what_was_granted_or_is_leased(self) -> None:
        """A refused call took nothing of any limit; a lease that was lost counts as spent."""
        for process in self.all:
            process.hear()
        lost = self.never_heard + BLOCK * (PROCESSES + self.losses)
        for scope, most in PER_MINUTE.items():
            tat = int(self.store.client.get(f"rate:{scope}:requests_per_minute") or 0) / SECOND
            granted = sum(any(c.scope == scope for c in hold.checks) for _, hold in self.granted)
            assert (tat - int(START) - self.store.at) * most / 60 <= granted + lost + 1e-3

    def counted(self, key: str) -> int:
        now = self.store.now()
        # In one step: processes send on meanwhile, and a unit that went back is taken by a call.
        with self.store.client.pipeline() as both:
            both.hvals(f"leased:{key}").zcount(key, f"({now}", "+inf")
            values, calls = both.execute()
        leased = [value.split(":") for value in values]
        return calls + sum(int(units) for units, ends in leased if int(ends) > now)

    def teardown(self) -> None:
        """All calls end, and all processes too: nothing is held for ever."""
        if not hasattr(self, "all"):
            return
        for by in range(PROCESSES):
            self.all[by].hear()
            self.calls_end(by, 1.0, 1.0)
            self.all[by].hear()
        self.store.pass_time(LEASE_SECONDS + 1)
        for scope in AT_ONCE:
            assert self.counted(f"calls:{scope}") == 0
        for process in self.all:
            process.die()
        self.store.client.close()


Machine.TestCase.settings = how(
    max_examples=25,
    phases=[Phase.explicit, Phase.generate],
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
test_four_processes_keep_every_limit = Machine.TestCase
