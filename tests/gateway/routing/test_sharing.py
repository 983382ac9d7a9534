"""Processes share a replica's slots: never more than it has, and none idle while one is needed."""

import pytest
import redis
from django.conf import settings
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from control.gateway.routing import sharing
from control.gateway.routing.sharing import Other
from control.gateway.routing.slots import EXCHANGE


@pytest.mark.parametrize(
    ("slots", "needs", "most"),
    [
        (8, [2, 3], 8),  # enough for all
        (8, [20, 20], 4),
        (8, [20, 2], 6),
        (9, [20, 20], 5),  # the odd one goes to whoever comes first
        (8, [20, 0, 0, 0], 8),
        (8, [1, 20, 20, 2], 3),
        (0, [1, 2], 0),
        (2, [5, 5, 5, 5], 1),
    ],
)
def test_slots_are_filled_up_to_one_level(slots, needs, most):
    assert sharing.level(slots, needs) == most


@pytest.mark.parametrize(
    ("need", "others", "usable"),
    [
        (0, [], 8),  # at rest each keeps its even share of 32
        (5, [Other(8, 2)], 8),
        (20, [Other(8, 2), Other(8, 8)], 20),  # nobody else lacks any
        (100, [], 32),
        (0, [Other(8, 20)], 0),  # another lacks some, and it uses none
        (3, [Other(8, 20)], 3),
        (40, [Other(8, 40)], 16),
        (40, [Other(8, 40), Other(8, 4)], 14),
    ],
)
def test_a_process_uses_more_than_its_even_share_only_while_no_other_lacks_it(need, others, usable):
    assert sharing.usable(32, 4, need, others) == usable


PROCESSES, SLOTS, KEY = 4, 10, "slots:test:1"


class Skewed(RuleBasedStateMachine):
    """Four processes before one replica in a real Valkey; calls come to any of them unevenly."""

    @initialize()
    def begin(self) -> None:
        self.client = redis.Redis.from_url(settings.REDIS_LIVE_URL)
        self.client.delete(KEY)
        self.step = self.client.register_script(EXCHANGE)
        self.running, self.waits = [0] * PROCESSES, [0] * PROCESSES
        self.granted, self.usable = [0] * PROCESSES, [0] * PROCESSES
        self.others: list[tuple[Other, ...]] = [()] * PROCESSES

    @rule(n=st.sampled_from([0, 0, 0, 0, 1, 2, 3]), calls=st.integers(1, 12))
    def come(self, n: int, calls: int) -> None:
        self.waits[n] = min(self.waits[n] + calls, 30)
        self._go(n)

    @rule(n=st.integers(0, PROCESSES - 1), calls=st.integers(1, 5))
    def end(self, n: int, calls: int) -> None:
        self.running[n] = max(self.running[n] - calls, 0)
        self._go(n)

    @rule(n=st.integers(0, PROCESSES - 1))
    def exchange(self, n: int) -> None:
        need = self.running[n] + self.waits[n]
        ask = max(sharing.usable(SLOTS, PROCESSES, need, self.others[n]), self.running[n])
        words = [f"p{n}", 10_000_000, SLOTS, ask, need]
        [[self.granted[n], *rest]] = self.step(keys=[KEY], args=words)
        self.others[n] = tuple(map(Other, rest[::2], rest[1::2]))
        self.usable[n] = sharing.usable(SLOTS, PROCESSES, need, self.others[n])
        self._go(n)

    @rule()
    def settle(self) -> None:
        """No call ends: within some exchanges no slot is idle while a call waits anywhere."""
        for _ in range(3):
            for n in range(PROCESSES):
                self.exchange(n)
        needed = sum(self.running) + sum(self.waits)
        assert sum(self.running) == min(SLOTS, needed)

    @invariant()
    def never_more_than_there_are(self) -> None:
        if hasattr(self, "running"):
            assert sum(self.running) <= sum(self.granted) <= SLOTS
            assert all(r <= g for r, g in zip(self.running, self.granted, strict=True))

    def _go(self, n: int) -> None:
        free = min(self.granted[n], self.usable[n]) - self.running[n]
        go = max(min(free, self.waits[n]), 0)
        self.running[n] += go
        self.waits[n] -= go

    def teardown(self) -> None:
        if hasattr(self, "client"):
            self.client.delete(KEY)
            self.client.close()


Skewed.TestCase.settings = hypothesis_settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestSkewed = Skewed.TestCase
