"""How a replica is chosen of several that have room."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.gateway.routing import policies
from control.gateway.routing.candidates import Candidate, EngineLoad, Pick
from control.gateway.routing.keys import replica_seed

NOW = 100.0


def replicas(*in_flight: int, slots: int = 8) -> list[Candidate]:
    return [Candidate(n, slots, calls) for n, calls in enumerate(in_flight, 1)]


def named(count: int) -> list[Candidate]:
    return [Candidate(n, 8, seed=replica_seed("d", n)) for n in range(1, count + 1)]


def pick(policy: str, all_: list[Candidate], tie: int = 0, **more) -> int:
    free = [one for one in all_ if one.in_flight < one.slots]
    return policies.choose(Pick(tie, policy, **more), all_, free, NOW)[0].id


def says(candidate: Candidate, running=0, waiting=0, kv=0.0, age=1.0, own=0) -> None:
    candidate.engine = EngineLoad(running, waiting, kv, NOW - age, own)


def test_round_robin_goes_round_and_passes_over_who_has_no_room():
    all_ = replicas(0, 8, 0, 0)
    assert [pick("round_robin", all_, turn=n) for n in (0, 2, 3, 4)] == [1, 3, 4, 1]
    instead = Counter(pick("round_robin", all_, turn=n) for n in range(1, 48, 4))
    assert set(instead) == {1, 3, 4}  # not always the next one
    assert max(instead.values()) == min(instead.values())


def test_least_calls_knows_nothing_but_our_own_calls():
    all_ = replicas(3, 1, 2)
    says(all_[1], running=8, waiting=8)
    assert pick("least_calls", all_) == 2


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_two_choices_never_takes_the_busiest(tie):
    assert pick("two_choices", replicas(1, 7, 2), tie) != 2


def test_two_choices_asks_two_that_differ_and_all_of_them_in_time():
    ties = [policies.mixed(n) for n in range(300)]
    assert {pick("two_choices", replicas(0, 0, 0), tie) for tie in ties} == {1, 2, 3}


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ({"running": 4}, {"running": 2}, 2),
        ({"running": 2, "waiting": 2}, {"running": 4}, 2),  # a queue weighs more than work
        ({"running": 1, "kv": 0.9}, {"running": 4}, 2),  # the cache is full before the slots are
        ({"running": 8, "age": 3.5}, {"running": 1}, 1),  # too old: our own calls only
        (None, {"running": 1}, 1),
    ],
)
def test_load_aware_reads_what_the_engines_say(first, second, wanted):
    all_ = replicas(0, 0)
    for candidate, said in zip(all_, (first, second), strict=True):
        if said is not None:
            says(candidate, **said)
    assert pick("load_aware", all_) == wanted


def test_calls_sent_since_the_engine_spoke_count_and_those_before_count_once():
    one, two = replicas(5, 3)
    says(one, running=5, own=5)
    says(two, running=3, own=0)  # all three were sent since, or it would be 1 run by others
    assert (one.load(NOW), two.load(NOW)) == (5 / 8, 6 / 8)
    one.in_flight = 2
    assert one.load(NOW) == 2 / 8  # three of ours have ended since


# --- by key ---


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(2, 8))
def test_one_replica_less_moves_only_its_own_keys(key, count):
    all_ = named(count)
    first = policies.ordered(key, all_)[0]
    for gone in all_:
        left = [one for one in all_ if one is not gone]
        now_first = policies.ordered(key, left)[0]
        assert now_first is first or gone is first


def test_keys_are_spread_evenly_and_a_new_replica_takes_its_share_only():
    keys = [policies.mixed(n) for n in range(4000)]
    before = {key: policies.ordered(key, named(4))[0].id for key in keys}
    assert all(abs(count - 1000) < 120 for count in Counter(before.values()).values())
    after = {key: policies.ordered(key, named(5))[0].id for key in keys}
    moved = [key for key in keys if before[key] != after[key]]
    assert {after[key] for key in moved} == {5}
    assert abs(len(moved) / 4000 - 0.2) < 0.03


def test_the_order_is_the_same_in_every_process():
    assert [one.id for one in policies.ordered(42, named(4))] == [
        one.id for one in policies.ordered(42, list(reversed(named(4))))
    ]


@pytest.mark.parametrize("policy", ["prefix", "sticky"])
def test_a_key_stays_until_its_replica_is_overloaded_and_returns_afterwards(policy):
    all_ = named(4)
    first, second = policies.ordered(7, all_)[:2]
    assert pick(policy, all_, key=7) == first.id
    first.in_flight = 7
    assert pick(policy, all_, key=7) == second.id
    first.in_flight = 0
    assert pick(policy, all_, key=7) == first.id


def test_a_replica_that_is_out_gives_its_keys_to_the_next_in_order():
    all_ = named(4)
    first, second = policies.ordered(7, all_)[:2]
    first.slots = 0
    assert pick("sticky", all_, key=7) == second.id


def test_a_few_calls_do_not_drive_a_key_away():
    all_ = named(4)
    first = policies.ordered(7, all_)[0]
    first.in_flight = 1
    assert pick("prefix", all_, key=7) == first.id


def test_a_prefix_hotter_than_one_replica_spreads():
    all_ = named(4)
    went = Counter()
    for _ in range(16):
        id_ = pick("prefix", all_, key=7)
        went[id_] += 1
        next(one for one in all_ if one.id == id_).in_flight += 1
    assert len(went) == 4
    assert max(went.values()) <= 1.25 * 16 / 4 + 1


def test_all_busy_at_once_means_the_least_loaded():
    all_ = named(2)
    for one in all_:
        one.in_flight = 7
        says(one, running=7, own=7)
    all_[0].in_flight = 6
    assert pick("sticky", all_, key=7) in (1, 2)


def test_a_call_without_a_key_goes_by_load():
    assert pick("sticky", replicas(3, 1, 2)) == 2
