"""A01: sizes settle under a steady load with noise, and an outage of figures changes nothing."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from control.autoscaling.rules import Bounds, Fleet, Memory, Signs, decide
from control.fleet.scaling import Scaling

SLOTS, START_SECONDS = 2, 20
BOUNDS = Bounds(replicas_min=1, replicas_max=8)


class Played:
    """5 calls a second of 1 s each, on replicas of two slots that take 20 s to start."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.at = datetime(2026, 1, 1, tzinfo=UTC)
        self.wanted = self.ready = 1
        self.starting: list[float] = []
        self.queue = 0.0
        self.memory = Memory()
        self.changes: list[tuple[int, int]] = []  # second, size

    def second(self, number: int, known: bool = True) -> None:
        self.at += timedelta(seconds=1)
        self.starting = [left - 1 for left in self.starting]
        self.ready += sum(left <= 0 for left in self.starting)
        self.starting = [left for left in self.starting if left > 0]
        offered = 5 * self.random.uniform(0.8, 1.2) + self.queue
        served = min(offered, self.ready * SLOTS)
        self.queue = min(offered - served, 200)
        use = served / (self.ready * SLOTS)
        signs = Signs(self.queue, 0.0, 0.0, use, use, None, served) if known else Signs()
        self.look(signs, number)

    def look(self, signs: Signs, number: int) -> None:
        fleet = Fleet(self.wanted, self.ready, len(self.starting))
        decision = decide(fleet, signs, self.memory, Scaling(), BOUNDS, self.at)
        self.memory = decision.memory
        if decision.wanted != self.wanted:
            self.changes.append((number, decision.wanted))
            grown = decision.wanted - self.wanted
            self.starting += [START_SECONDS] * max(grown, 0)
            self.ready += min(grown, 0)
            self.wanted = decision.wanted


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a01_sizes_settle_and_an_outage_of_figures_changes_none(seed):
    played = Played(seed)
    for number in range(600):
        played.second(number, known=not 300 <= number < 360)
    assert played.ready * SLOTS >= 5
    assert played.queue < 8
    late = [second for second, _ in played.changes if second >= 120]
    assert len(late) <= 1
    assert not [second for second in late if 300 <= second < 360]


@pytest.mark.parametrize("seed", [1, 2])
def test_a01_another_leader_goes_on_where_the_one_before_stopped(seed):
    """What is remembered is in a table: two that look in turns decide as one does."""
    alone, in_turns = Played(seed), Played(seed)
    for number in range(600):
        alone.second(number)
        in_turns.memory = Memory(**vars(in_turns.memory))
        in_turns.second(number)
    assert alone.changes == in_turns.changes
