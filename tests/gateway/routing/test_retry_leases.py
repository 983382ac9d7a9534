"""What one process earned, another tries again with: through the real Valkey."""

import pytest
import redis
from django.conf import settings

from control.gateway.routing import retries
from tests.gateway.place import Place


@pytest.fixture(autouse=True)
def _empty():
    with redis.Redis.from_url(settings.REDIS_LIVE_URL) as client:
        client.delete(retries.KEY)
        yield
        client.delete(retries.KEY)


def spent(place: Place) -> int:
    return sum(place.shared.replicas.retries.spend() for _ in range(100))


async def exchanged(place: Place) -> None:
    leases = place.shared.retries
    asked_at = leases._asked_at
    await place.until(lambda: leases._asked_at != asked_at and not leases._flying)


async def test_a_process_whose_calls_fail_has_what_others_earned(tmp_path):
    how = {
        "redis_url": settings.REDIS_LIVE_URL,
        "processes": 2,
        "limits": {"retry_exchange_seconds": 0.05},
    }
    async with Place(tmp_path / "a", **how) as good, Place(tmp_path / "b", **how) as bad:
        for place in (good, bad):
            await place.until(lambda place=place: place.shared.counters.shared)
        assert spent(bad) == 5
        for _ in range(40):
            good.shared.replicas.retries.earn()
        await exchanged(good)
        await bad.until(lambda: not bad.shared.replicas.retries.lacks)
        assert spent(bad) == 4
        assert spent(good) == 5


async def test_without_valkey_a_process_has_what_it_earned(tmp_path):
    async with Place(tmp_path, processes=2) as place:
        assert spent(place) == 5
        for _ in range(20):
            place.shared.replicas.retries.earn()
        place.shared.retries.sweep(place.time.now())
        assert spent(place) in (1, 2)  # tenths do not add up to whole numbers
