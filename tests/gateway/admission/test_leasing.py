"""Limits of which processes hold leases: calls ask nobody, and no limit is exceeded."""

import asyncio
from itertools import count

import pytest
from django.conf import settings

from control.gateway.admission.bundles import Taken
from control.gateway.admission.leases import Lease, block_of
from control.gateway.admission.rules import Hold, Refused, Slots, Used, checks_of
from tests.gateway.admission.test_counters import Clients

IN, OUT = "input_tokens_per_minute", "output_tokens_per_minute"


@pytest.fixture
async def clients():
    clients = await Clients(settings.REDIS_LIVE_URL).connect()
    yield clients
    clients.close()


def evals(valkey) -> int:
    return valkey.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)


async def quiet(clients: Clients) -> None:
    """Until all that was sent has been answered."""
    async with asyncio.timeout(30):
        await asyncio.sleep(0)
        while any(counters.valkey._waiting for counters in clients.all):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("limits", "blocks"),
    [
        ({"requests_per_minute": 99}, [0]),
        ({"requests_per_minute": 100}, [1]),
        ({IN: 100_000, OUT: 5050}, [1000, 50]),
        ({"requests_per_second": 1000, "burst": 50}, [0]),
        ({"requests_per_second": 1000, "burst": 5000}, [10]),
        ({"concurrent_calls": 99}, [0]),
        ({"concurrent_calls": 640}, [6]),
    ],
)
def test_a_lease_is_at_most_a_hundredth_and_small_limits_are_asked(limits, blocks):
    assert [block_of(check) for check in checks_of("t:1", limits)] == blocks


async def test_most_calls_are_granted_at_once_and_ask_nobody(clients, valkey):
    hold = Hold(
        checks_of("t:1", {"requests_per_minute": 60_000, IN: 1_000_000, "concurrent_calls": 9999})
        + checks_of("k:9", {OUT: 1_000_000}),
        input_tokens=10,
        output_tokens=20,
    )
    first = await clients.hold("req_0", hold)
    await quiet(clients)
    before, answers = evals(valkey), []
    for number in range(40):
        clients.all[0].take(f"req_{number + 1}", hold, answers.append)
    assert len(answers) == 40
    for number, taken in enumerate([first, *answers]):
        clients.all[0].settle(f"req_{number}", hold, taken, Used(10, 20))
    await quiet(clients)
    assert evals(valkey) == before + 1  # the first call's, which had asked


numbers = count()


async def granted(clients: Clients, hold: Hold, by: int) -> dict[str, Taken]:
    """By call id, all that one gateway gets before it is refused."""
    taken: dict[str, Taken] = {}
    while True:
        call_id = f"call_{next(numbers)}"
        answer = await clients.hold(call_id, hold, by)
        if isinstance(answer, Refused):
            return taken
        taken[call_id] = answer
        if len(taken) % 7 == 0:
            await quiet(clients)


@pytest.mark.parametrize(
    ("limits", "units"),
    [({"concurrent_calls": 250}, 1), ({IN: 4000}, 8)],
)
async def test_two_gateways_grant_the_limit_and_no_more(clients, limits, units):
    hold = Hold(checks_of("t:1", limits), input_tokens=8)
    [most] = limits.values()
    taken: dict[str, Taken] = {}
    for by in (0, 1, 0, 1):
        taken |= await granted(clients, hold, by)
    # What refills meanwhile may be granted too: a token each 15 ms.
    assert most - 2 * most // 100 <= len(taken) * units
    if isinstance(hold.checks[0], Slots):
        assert len(taken) == most


async def test_slots_that_are_given_back_serve_the_other_gateway(clients):
    hold = Hold(checks_of("t:1", {"concurrent_calls": 200}))
    first = await granted(clients, hold, 0)
    for call_id, taken in first.items():
        clients.all[0].settle(call_id, hold, taken, Used())
    await quiet(clients)
    # Of two hundredths that a lease may hold, one process keeps its own, and one is under way.
    assert len(await granted(clients, hold, 1)) >= 196


async def test_what_was_not_used_comes_back_and_what_was_used_beyond_is_charged(clients, valkey):
    hold = Hold(checks_of("t:1", {IN: 600_000, OUT: 600_000}), 100, 100)
    taken = [await clients.hold(f"req_{n}", hold) for n in range(20)]
    await quiet(clients)
    assert sum(bool(one.bundle) for one in taken) >= 15
    for number, one in enumerate(taken):
        clients.all[0].settle(f"req_{number}", hold, one, Used(200, 10))
    for _ in range(9):  # idle leases go back, and their leaseholder with them
        clients.sweep()
        await quiet(clients)
    seconds, microseconds = valkey.time()
    for limit, used in ((IN, 4000), (OUT, 200)):
        ahead = int(valkey.get(f"rate:t:1:{limit}") or 0) - seconds * 1_000_000 - microseconds
        assert ahead <= used * 100
        assert not valkey.exists(f"leased:rate:t:1:{limit}")


async def test_idle_leases_are_given_back(clients, valkey):
    hold = Hold(checks_of("t:1", {"requests_per_minute": 60_000, "concurrent_calls": 1000}))
    answer = await clients.hold("req_0", hold)
    await quiet(clients)
    assert valkey.hvals("leased:calls:t:1")[0].startswith("10:")
    clients.all[0].settle("req_0", hold, answer, Used())
    for _ in range(9):
        clients.sweep()
        await quiet(clients)
    assert not valkey.keys("leased:*")


async def test_r01_a_killed_gateways_slots_come_back_when_its_lease_ends(clients, valkey):
    hold = Hold(checks_of("t:1", {"concurrent_calls": 100}))
    await granted(clients, hold, 0)
    assert isinstance(await clients.hold("req_x", hold, 1), Refused)
    await quiet(clients)
    seconds, _ = valkey.time()
    for field, value in valkey.hgetall("leased:calls:t:1").items():
        units = value.partition(":")[0]  # as ten seconds without renewal leave it
        valkey.hset("leased:calls:t:1", field, f"{units}:{seconds * 1_000_000 - 1}")
    for call in valkey.zrange("calls:t:1", 0, -1):
        valkey.zadd("calls:t:1", {call: 1})
    assert isinstance(await clients.hold("req_y", hold, 1), Taken)
    for _ in range(3):  # a late renewal revives nothing
        clients.all[0].sweep(clients.time.now())
        await quiet(clients)
    assert len(await granted(clients, hold, 1)) == 99


async def test_a_lease_that_was_not_renewed_in_time_is_not_spent(clients):
    hold = Hold(checks_of("t:1", {"requests_per_minute": 60_000}))
    await clients.hold("req_0", hold)
    await quiet(clients)
    clients.time.pushed_seconds += 11
    answers: list = []
    clients.all[0].take("req_1", hold, answers.append)
    assert not answers
    await quiet(clients)
    assert answers[0].shared


async def test_slots_of_running_calls_are_announced_to_a_valkey_that_lost_all(clients, valkey):
    hold = Hold(checks_of("t:1", {"concurrent_calls": 100}))
    while await granted(clients, hold, 0):
        """The last unit may have come to the lease just after a call asked for itself."""
    await clients.lose_all(valkey)
    await clients.connect()
    await quiet(clients)
    assert isinstance(await clients.hold("req_x", hold, 1), Refused)


def test_a_forgotten_lease_is_not_spent_by_calls_that_end_late():
    lease = Lease(Slots("t:1", "concurrent_calls", 1000), "p.1")
    lease.in_use, lease.left = 3, 7
    lease.forget()
    assert (lease.left, lease.held) == (0, 0)
