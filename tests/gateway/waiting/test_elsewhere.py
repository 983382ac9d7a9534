"""Tenants with connections to several processes get no more of an engine than others."""

from collections.abc import AsyncIterator

import pytest
import redis
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from control.gateway.limits import Limits
from control.gateway.waiting.elsewhere import Elsewhere, others
from control.gateway.waiting.rules import Service
from tests.gateway.place import Place
from tests.gateway.waiting.test_queue import BATCH, STANDARD, Room

KEYS = ("had:standard:d", "had:batch:d")


@pytest.mark.parametrize(
    ("totals", "before", "own", "news"),
    [
        ({1: 10.0}, {}, {1: 10.0}, {}),
        ({1: 10.0}, {1: 4.0}, {}, {1: 6.0}),
        ({1: 10.0, 2: 5.0}, {1: 4.0}, {1: 2.0}, {1: 4.0, 2: 5.0}),
        ({1: 3.0}, {1: 4.0}, {}, {1: -1.0}),  # an estimate was too high
        ({}, {}, {}, {}),
    ],
)
def test_what_others_told_is_the_rest(totals, before, own, news):
    assert others(totals, before, own) == news


# Who waits in which of four processes.
SKEWED = ((1, 2), (1, 2), (2,), (1,))
PERIOD, COST_MAX = 8, 20  # turns between two exchanges


@given(st.lists(st.integers(10, COST_MAX), min_size=40, max_size=400))
def test_two_that_wait_have_had_alike_over_four_processes(costs):
    processes = [Service() for _ in SKEWED]
    for service, waiting in zip(processes, SKEWED, strict=True):
        for tenant in waiting:
            service.lift(tenant, ())
    had = {1: 0.0, 2: 0.0}
    for turn, cost in enumerate(costs):
        n = turn % len(processes)
        tenant = processes[n].least(SKEWED[n])
        processes[n].charge(tenant, cost)
        had[tenant] += cost
        if turn % PERIOD == PERIOD - 1:
            told = [service.tell() for service in processes]
            for listener, service in enumerate(processes):
                for teller, own in enumerate(told):
                    if teller != listener:
                        service.hear(own)
        assert abs(had[1] - had[2]) <= (2 + PERIOD) * COST_MAX


@pytest.fixture
async def place(tmp_path) -> AsyncIterator[Place]:
    client = redis.Redis.from_url(settings.REDIS_LIVE_URL)
    client.delete(*KEYS)
    async with Place(tmp_path, redis_url=settings.REDIS_LIVE_URL) as place:
        await place.until(lambda: place.shared.counters.shared)
        place.client = client
        yield place
    client.delete(*KEYS)
    client.close()


def elsewhere(
    place: Place, room: Room, processes: int = 2, wanted: tuple[str, ...] = ()
) -> Elsewhere:
    valkey = place.shared.counters.valkey
    return Elsewhere(*(valkey, room.waiting, lambda: wanted), processes=processes, limits=Limits())


async def exchange(place: Place, *all_: Elsewhere) -> None:
    for one in all_:
        one._asked_at = float("-inf")
        one.sweep(0.0)
        await place.until(lambda one=one: not one._flying)


async def test_turns_in_another_process_count_here(place):
    here, there = Room(), Room()
    for n in range(6):
        here.join(f"both {n}", tenant=1)
        here.join(f"here {n}", tenant=2)
        there.join(f"there {n}", tenant=1)
    both = [elsewhere(place, room) for room in (here, there)]
    await exchange(place, *both)
    there.free(3)
    await exchange(place, *both[::-1])
    assert 0 < place.client.pttl(KEYS[0]) <= 10_000
    assert here.free(4) == ["here 0", "here 1", "here 2", "both 0"]
    await exchange(place, *both)
    assert here.free(2) == ["here 3", "both 1"]  # its own are not heard as others'


async def test_each_priority_has_its_own_and_nothing_is_sent_while_nobody_waits(place):
    room = Room(slots=1)
    one = elsewhere(place, room)
    calm = room.waiter("calm")
    calm.on_turn()
    room.waiting.settled(calm, 500)
    await exchange(place, one)
    assert not place.client.exists(*KEYS)
    room.join("bulk", BATCH)
    room.join("bulk too", BATCH, tenant=2)
    room.free(1)
    await exchange(place, one)
    assert place.client.hgetall(KEYS[1]) == {b"1": b"10"}
    assert not place.client.exists(KEYS[0])


async def test_what_is_served_without_a_queue_counts_where_calls_wait(place):
    here, there = Room(), Room(slots=4)
    for n in range(3):
        here.join(f"one {n}", tenant=1)
        here.join(f"two {n}", tenant=2)
    waits, serves = elsewhere(place, here), elsewhere(place, there, wanted=("d",))
    there.waiter("before it was known", tenant=1).on_turn()
    await exchange(place, waits, serves)
    for n in range(2):
        there.waiter(f"at once {n}", tenant=1).on_turn()
    await exchange(place, serves, waits)
    assert here.free(3) == ["two 0", "two 1", "one 0"]


async def test_one_process_alone_tells_nobody(place):
    room = Room()
    room.join("waits", STANDARD)
    await exchange(place, elsewhere(place, room, processes=1))
    assert not place.client.exists(*KEYS)
