"""Limits counted in a real Valkey for all gateways, and alone without it."""

import asyncio
from urllib.parse import urlsplit

import pytest
import uvloop
from django.conf import settings

from control.gateway.admission.bundles import Taken
from control.gateway.admission.counters import Counters
from control.gateway.admission.rules import Hold, Refused, Used, checks_of
from control.gateway.admission.valkey import ReplyError, Valkey
from control.gateway.limits import Limits
from tests.gateway.place import NOWHERE, Time

# A machine that stands still for a moment must not make Valkey look slow.
LIMITS = Limits(counters_seconds=600)


class Clients:
    """Two gateway processes' counters; `together` is False without Valkey."""

    def __init__(self, url: str, processes: int = 2) -> None:
        self.time = Time()
        self.all = [
            Counters(url, processes=processes, limits=LIMITS, clock=self.time.now) for _ in range(2)
        ]

    async def connect(self) -> "Clients":
        async with asyncio.timeout(30):
            while not all(counters.shared for counters in self.all):
                self.sweep()
                await asyncio.sleep(0.01)
        return self

    async def lose_all(self, valkey) -> None:
        """As a restart does of a Valkey that keeps nothing on disk."""
        valkey.flushall()
        for connection in valkey.client_list():
            if connection["cmd"] != "client|list":
                valkey.client_kill_filter(_id=connection["id"])
        async with asyncio.timeout(30):
            while any(counters.shared for counters in self.all):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)

    def sweep(self) -> None:
        for counters in self.all:
            counters.sweep(self.time.now())

    async def take(self, id_: str, limits: dict, scope: str = "t:1", by: int = 0):
        return await self.take_checks(id_, checks_of(scope, limits), by)

    async def take_checks(self, id_: str, checks, by: int = 0):
        return await self.hold(id_, Hold(checks), by)

    async def hold(self, id_: str, hold: Hold, by: int = 0):
        answer = asyncio.get_running_loop().create_future()
        self.all[by].take(id_, hold, answer.set_result)
        return await asyncio.wait_for(answer, 30)

    def end(self, id_: str, limits: dict, taken: Taken, by: int = 0) -> None:
        self.all[by].settle(id_, Hold(checks_of("t:1", limits)), taken, Used())

    def close(self) -> None:
        for counters in self.all:
            counters.close()


@pytest.fixture
async def clients():
    clients = await Clients(settings.REDIS_LIVE_URL).connect()
    yield clients
    clients.close()


@pytest.fixture
async def alone():
    clients = Clients(NOWHERE)
    yield clients
    clients.close()


async def test_a_burst_passes_at_once_and_the_next_call_is_told_how_long_to_wait(clients, valkey):
    limits, taken, before = {"requests_per_second": 1, "burst": 3}, 0, now(valkey)
    while isinstance(answer := await clients.take(f"req_{taken}", limits, by=taken % 2), Taken):
        taken += 1
    assert 3 <= taken <= 3 + now(valkey) - before  # one a second comes back meanwhile
    assert 0 < answer.wait_seconds <= 1
    assert answer.check.limit == "requests_per_second"


def now(valkey) -> float:
    """By the clock that counts."""
    seconds, microseconds = valkey.time()
    return seconds + microseconds / 1e6


async def test_what_is_left_of_a_minute_is_told(clients):
    limits = {"requests_per_minute": 6}  # one comes back in ten seconds
    levels = [(await clients.take(f"req_{n}", limits)).levels[0] for n in range(3)]
    assert [level.remaining for level in levels] == [5, 4, 3]
    assert 20 < levels[2].reset_seconds <= 30


async def test_calls_at_once_are_counted_over_all_gateways(clients):
    limits = {"concurrent_calls": 2}
    taken = [await clients.take(f"req_{n}", limits, by=n) for n in range(2)]
    assert [type(answer) for answer in taken] == [Taken, Taken]
    assert isinstance(await clients.take("req_2", limits), Refused)
    clients.end("req_1", limits, taken[1], by=1)
    clients.end("req_1", limits, taken[1], by=1)  # once more is harmless
    await clients.take("req_x", {"requests_per_minute": 9}, by=1)  # after the release
    assert isinstance(await clients.take("req_3", limits), Taken)
    assert isinstance(await clients.take("req_3", limits), Taken)  # the same call, the same lease


async def test_all_scopes_have_room_or_nothing_is_taken(clients, valkey):
    checks = checks_of("t:1", {"requests_per_minute": 6, "concurrent_calls": 9}) + checks_of(
        "k:9", {"requests_per_minute": 1}
    )
    assert isinstance(await clients.take_checks("req_0", checks), Taken)
    refused = await clients.take_checks("req_1", checks)
    assert (refused.check.scope, refused.check.limit) == ("k:9", "requests_per_minute")
    assert valkey.zcard("calls:t:1") == 1
    left = await clients.take("req_2", {"requests_per_minute": 6})
    assert left.levels[0].remaining == 4  # one was taken by the call that passed, one by this


async def test_r01_the_lease_of_a_dead_process_ends_by_itself(clients, valkey):
    limits = {"concurrent_calls": 1}
    await clients.take("req_0", limits)
    assert isinstance(await clients.take("req_1", limits, by=1), Refused)
    seconds, microseconds = valkey.time()
    expired = seconds * 1_000_000 + microseconds - 1
    valkey.zadd("calls:t:1", {"req_0": expired})  # as ten seconds without renewal leave it
    assert isinstance(await clients.take("req_1", limits, by=1), Taken)
    for _ in range(3):  # a late renewal revives nothing
        clients.sweep()
    await clients.take("req_x", {"requests_per_minute": 9})
    assert valkey.zrange("calls:t:1", 0, -1) == ["req_1"]


async def test_r01_leases_of_live_calls_are_renewed(clients, valkey):
    await clients.take("req_0", {"concurrent_calls": 1})
    before = valkey.zscore("calls:t:1", "req_0")
    for _ in range(3):
        clients.sweep()
    await clients.take("req_x", {"requests_per_minute": 9})
    assert valkey.zscore("calls:t:1", "req_0") > before


async def test_scopes_without_limits_ask_nobody(clients, valkey):
    before = valkey.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)
    assert (await clients.take_checks("req_0", ())).levels == ()
    after = valkey.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)
    assert before == after


async def test_without_valkey_each_process_has_its_share(alone):
    limits = {"requests_per_minute": 6, "concurrent_calls": 4}
    answers = [await alone.take(f"req_{n}", limits) for n in range(3)]
    assert [type(answer) for answer in answers] == [Taken, Taken, Refused]
    assert answers[2].check.limit == "concurrent_calls"
    alone.end("req_0", limits, answers[0])
    assert isinstance(await alone.take("req_3", limits), Taken)
    alone.end("req_1", limits, answers[1])
    refused = await alone.take("req_4", limits)
    assert refused.check.limit == "requests_per_minute"
    alone.time.pushed_seconds += refused.wait_seconds
    assert isinstance(await alone.take("req_5", limits), Taken)


async def test_a_valkey_that_goes_away_is_replaced_by_the_share_at_once(clients, valkey):
    for connection in valkey.client_list():
        if connection["cmd"] != "client|list":
            valkey.client_kill_filter(_id=connection["id"])
    answer = await clients.take("req_0", {"requests_per_minute": 6})
    assert isinstance(answer, Taken)
    await clients.connect()
    assert isinstance(await clients.take("req_1", {"requests_per_minute": 6}), Taken)


async def test_a_valkey_that_comes_back_empty_refills_its_rates_and_learns_what_runs(
    clients, valkey
):
    limits = {"requests_per_minute": 1, "concurrent_calls": 1}  # which refills in a minute
    assert isinstance(await clients.take("req_0", limits), Taken)
    await clients.lose_all(valkey)
    await clients.connect()
    refused = await clients.take("req_1", {"concurrent_calls": 1}, by=1)
    assert refused.check.limit == "concurrent_calls"  # req_0 still runs
    refused = await clients.take("req_2", {"requests_per_minute": 1}, by=1)
    assert 0 < refused.wait_seconds <= 60  # nobody knows what was taken before
    assert refused.levels[0].remaining == 0


async def test_a_gateway_that_meets_a_new_valkey_finds_its_rates_full(clients, valkey):
    assert valkey.get("rates:since") == "0"
    [level] = (await clients.take("req_0", {"requests_per_minute": 60})).levels
    assert level.remaining == 59


async def test_a_valkey_that_does_not_answer_is_given_up(clients, valkey):
    valkey.client_pause(3000)
    pending = asyncio.create_task(clients.take("req_0", {"requests_per_minute": 6}))
    await asyncio.sleep(0)
    clients.time.pushed_seconds += LIMITS.counters_seconds + 1
    clients.sweep()
    assert isinstance(await pending, Taken)
    assert not clients.all[0].shared
    valkey.client_unpause()


async def test_a_reply_that_nobody_can_handle_takes_no_other_along():
    heard = []

    def fails(reply):
        raise LookupError(reply)

    told = {"on_connected": list, "on_lost": list, "clock": float}
    valkey = Valkey("redis://127.0.0.1:1", answer_seconds=1, **told)
    for on_reply in (fails, heard.append):
        valkey.send(b"", on_reply)
    valkey.close()
    assert [type(reply) for reply in heard] == [ReplyError]


async def _begun_on_a_connection_that_was_given_up() -> list[Exception]:
    """What a time limit leaves that ends connecting when the connection was just made."""
    loop, failed, connected = asyncio.get_running_loop(), [], asyncio.Event()
    loop.set_exception_handler(lambda _, told: failed.append(told["exception"]))
    url = urlsplit(settings.REDIS_LIVE_URL)
    _, given_up = await asyncio.open_connection(url.hostname, url.port)
    given_up.close()
    await given_up.wait_closed()
    time, told = Time(), {"on_connected": connected.set, "on_lost": list}
    valkey = Valkey(settings.REDIS_LIVE_URL, answer_seconds=30, clock=time.now, **told)
    async with asyncio.timeout(30):
        valkey.connection_made(given_up.transport)
        await asyncio.sleep(0)
        valkey.sweep(time.now() + 31)
        await connected.wait()
    valkey.close()
    return failed


def test_a_connection_that_was_given_up_as_it_was_made_is_made_again():
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_begun_on_a_connection_that_was_given_up()) == []
