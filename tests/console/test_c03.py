"""C03: what is pushed is a hint; who reads slowly, or is gone, takes nothing from others."""

import logging

import pytest
import redis
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings
from django.utils import timezone

from console.live import layer
from console.live.charts import LIFETIME_SECONDS
from control.telemetry.messages import DeviceSample
from control.telemetry.publish import GROUP, Publisher
from control.telemetry.store import Store
from tests.console.sockets import connected

CHANGES = 500
SECONDS_MAX = 5  # of pages, which are sent something once in each
MEMBERS = f"asgi:group:{GROUP}"


@pytest.fixture
def cookie(transactional_db, console):
    return f"{settings.SESSION_COOKIE_NAME}={console.cookies[settings.SESSION_COOKIE_NAME].value}"


@pytest.fixture
def valkey():
    client = redis.Redis.from_url(settings.REDIS_CHANNELS_URL)
    client.delete(MEMBERS)
    yield client
    client.delete(MEMBERS)
    client.close()


def sample(ratio: float) -> DeviceSample:
    at = timezone.now().timestamp()
    return DeviceSample(at, "cpu-test", "n1/RAM", "cpu", 2**34, 2**33, ratio)


@sync_to_async
def publish(ratios) -> None:
    publisher = Publisher()
    try:
        for ratio in ratios:
            publisher.share([sample(ratio)])
    finally:
        publisher.close()


def shown(message: dict) -> float | None:
    """The last value of the only line."""
    if message["type"] == "point":
        return message["values"]["utilisation"][0]
    [chart] = [chart for chart in message["charts"] if chart["name"] == "utilisation"]
    return chart["columns"][0][-1] if chart["columns"] else None


async def heard_until(page, value: float) -> list[dict]:
    heard = [await page.hear_json()]
    while shown(heard[-1]) != value:
        assert len(heard) <= 4 * SECONDS_MAX, heard
        heard.append(await page.hear_json())
    return heard


async def test_c03_the_last_of_many_changes_is_shown_to_all_and_in_time(cookie, valkey):
    await sync_to_async(Store().put)([sample(0.0)])
    async with (
        connected("/live/charts/", cookie) as slow,
        connected("/live/charts/", cookie) as page,
    ):
        before = await page.hear_json()
        await slow.hear_json()
        ratios = [number / CHANGES for number in range(1, CHANGES + 1)]
        await publish(ratios)
        heard = await heard_until(page, 100.0)
        # Numbered without a gap, or the page would ask for all of it again.
        seqs = [message["seq"] for message in (before, *heard)]
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
        # Who did not read has no queue of them: the latest of each second waits for it.
        assert slow.app.output_queue.qsize() <= len(heard) + SECONDS_MAX
        assert await heard_until(slow, 100.0)


async def test_c03_members_of_processes_that_were_killed_are_forgotten(cookie, valkey):
    killed_at = timezone.now().timestamp() - layer.MEMBER_SECONDS - 1
    dead = {f"specific.dead{run}!{number}": killed_at for run in range(10) for number in range(200)}
    valkey.zadd(MEMBERS, dead)
    async with connected("/live/charts/", cookie) as page:
        await page.hear_json()
        assert valkey.zcard(MEMBERS) == len(dead) + 1
        await publish([0.5])
        assert valkey.zcard(MEMBERS) == 1
    assert valkey.zcard(MEMBERS) == 0  # who leaves says so
    assert layer.MEMBER_SECONDS > LIFETIME_SECONDS  # no page is forgotten while it is open


async def test_c03_who_never_reads_fills_no_memory_and_is_warned_of_once(valkey, caplog):
    """A worker that was killed a moment ago: nobody reads for it, and nobody has said so yet."""
    caplog.set_level(logging.INFO, "channels_redis.core")
    capacity = settings.CHANNEL_LAYERS["default"]["CONFIG"]["capacity"]
    await get_channel_layer().group_add(GROUP, "specific.dead!1")
    await publish([0.5] * (capacity + 100))
    assert valkey.zcard("asgispecific.dead!") == capacity
    expiry = settings.CHANNEL_LAYERS["default"]["CONFIG"]["expiry"]
    assert 0 < valkey.ttl("asgispecific.dead!") <= expiry
    valkey.delete("asgispecific.dead!")
    told = [record.getMessage() for record in caplog.records if "capacity" in record.getMessage()]
    assert len(told) <= 1
