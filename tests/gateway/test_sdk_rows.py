"""Rows of table 1.2 that take more than one call, or a fault of ours, by the real `openai`."""

import asyncio
from collections.abc import AsyncIterator

import openai
import pytest

from control.routes.snapshot import BucketInfo
from tests.gateway.admission.budgets import Bank, a_lender, a_tenant, in_thread
from tests.gateway.place import KEY, Place, chat, route
from tests.gateway.test_cases_secrets import raising
from tests.gateway.test_sdk_openai import ASKED, at_once, attempts, client
from tests.gateway.upstream import Upstream, answered

__all__ = ["at_once", "client"]  # fixtures


async def test_calls_at_once(client, place, engines, at_once):
    place.know(route(), scopes={"t:1": {"concurrent_calls": 1}})
    engine = await engines(answered(hold=asyncio.Event()))
    first = asyncio.create_task(place.post(chat()))
    await place.until(lambda: engine.seen)
    raised, tries = await attempts(place, client.chat.completions.create(**ASKED))
    assert (type(raised), raised.type) == (openai.RateLimitError, "rate_limit_error")
    assert (raised.code, tries) == ("concurrency_limit_exceeded", 3)
    assert int(raised.response.headers["retry-after-ms"]) > 0
    engine.scripts[0].hold.set()
    assert (await first).status == 200


async def test_more_than_the_route_can_do(client, place, engines, at_once):
    await engines(answered())
    place.know(route(bucket=BucketInfo(calls_per_second=0.01, burst_seconds=100)))
    assert (await place.post(chat())).status == 200
    raised, tries = await attempts(place, client.chat.completions.create(**ASKED))
    assert (type(raised), raised.type) == (openai.RateLimitError, "rate_limit_error")
    assert (raised.code, tries) == ("slow_down", 3)
    assert 0 < int(raised.response.headers["retry-after"]) <= 60


async def test_a_fault_of_the_gateway(client, place, engines, at_once):
    await engines(answered())
    place.gateway._world = place.gateway._world._replace(terms=raising, footings={})
    raised, tries = await attempts(place, client.chat.completions.create(**ASKED))
    assert (type(raised), raised.status_code) == (openai.InternalServerError, 500)
    assert (raised.type, raised.code, tries) == ("server_error", "internal_error", 3)


@pytest.fixture
async def poor(tmp_path, transactional_db) -> AsyncIterator[Place]:
    """Its tenant has a budget, and none of it left."""
    key, version = await in_thread(a_tenant)
    async with Place(tmp_path, lender=a_lender("gw-poor"), owner="gw-poor") as place:
        bank = Bank(None, key, version, [place])
        await in_thread(bank.budget, "0.05")  # a token costs 0.10
        await in_thread(bank.know)
        yield place


async def test_money_that_is_used_up(poor, at_once):
    engine = Upstream(answered("fine", 7, 1))
    await engine.start()
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{poor.url}/v1", timeout=30) as client:
        raised, tries = await attempts(poor, client.chat.completions.create(**ASKED))
    assert (type(raised), raised.type) == (openai.RateLimitError, "insufficient_quota")
    assert (raised.code, tries) == ("insufficient_quota", 1)
    assert raised.response.headers["x-should-retry"] == "false"
    assert "retry-after" not in raised.response.headers
    assert not engine.seen
    await engine.stop()
