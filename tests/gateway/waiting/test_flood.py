"""Whom a queue lets in while far too many come: nearly all of them start within their wait."""

import pytest

from control.gateway.waiting import rules
from tests.gateway.waiting.flood import Flood

INTERACTIVE, STANDARD, BATCH = rules.ORDER
TIMES, SECONDS, PATIENCE = 15, 60, 15
SHARES = {INTERACTIVE: 0.02, STANDARD: 0.28, BATCH: 0.70}


@pytest.mark.parametrize("seed", [1, 2])
def test_who_is_let_in_gets_a_turn_at_fifteen_times_the_capacity(seed):
    flood = Flood(seed)
    for priority, share in SHARES.items():
        flood.arrive(priority, TIMES * share * flood.capacity, SECONDS)
    flood.play(SECONDS)
    goodput = flood.served_seconds / (SECONDS * (flood.slots - flood.kept))
    flood.play(PATIENCE)
    assert goodput >= 0.95
    assert sorted(flood.waits[INTERACTIVE])[: len(flood.waits[INTERACTIVE]) * 19 // 20][-1] < 0.1
    assert flood.ends["in vain"] <= 0.01 * flood.queued
    assert flood.ends["displaced"] <= 0.01 * flood.queued
    assert flood.served[STANDARD] > flood.served[INTERACTIVE] > flood.served[BATCH] > SECONDS


@pytest.mark.parametrize("seed", [2, 3])
def test_an_engine_that_slows_down_in_the_flood_is_noticed(seed):
    """It shares a processor with it: what was measured before says too little."""
    flood = Flood(seed, slower=1.25)
    for priority, share in SHARES.items():
        flood.arrive(priority, TIMES * share * flood.capacity, SECONDS)
    flood.play(SECONDS + PATIENCE)
    assert flood.ends["in vain"] <= 0.01 * flood.queued


@pytest.mark.parametrize("seed", [2, 3])
def test_a_flood_is_believed_as_soon_as_it_begins(seed):
    """A few urgent calls keep a line open: the quiet before says nothing of what comes now."""
    flood = Flood(seed)
    flood.arrive(INTERACTIVE, flood.capacity / 30, SECONDS)
    flood.play(15.2)  # a call runs: the line is the one that the flood finds
    for priority, share in SHARES.items():
        flood.arrive(priority, TIMES * share * flood.capacity, SECONDS / 6)
    flood.play(SECONDS)
    assert flood.ends["in vain"] <= 0.01 * flood.queued * 6  # as many as in a whole minute may


def test_a_burst_of_batch_alone_is_queued():
    flood = Flood(3)
    flood.burst(BATCH, 200)
    flood.play(0.05)
    assert flood.queued == 200 - flood.slots
    flood.play(PATIENCE)
    assert flood.ends == {"served": 200}


def test_batch_beside_a_few_urgent_calls_is_queued():
    flood = Flood(4)
    flood.arrive(INTERACTIVE, 0.2 * flood.capacity, SECONDS)
    flood.play(SECONDS / 2)
    flood.burst(BATCH, 150)
    flood.play(SECONDS / 2 + PATIENCE)
    assert set(flood.ends) == {"served"}
    assert flood.served[BATCH] == 150
