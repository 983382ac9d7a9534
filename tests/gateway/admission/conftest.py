"""Two gateways that count together in a real Valkey, and one engine behind both."""

from collections.abc import AsyncIterator

import pytest
from django.conf import settings

from tests.gateway.place import Place, replica
from tests.gateway.upstream import Upstream, answered


@pytest.fixture
async def gateways(tmp_path) -> AsyncIterator[list[Place]]:
    url = settings.REDIS_LIVE_URL
    async with (
        Place(tmp_path / "1", redis_url=url, processes=2) as first,
        Place(tmp_path / "2", redis_url=url, processes=2) as second,
    ):
        for place in (first, second):
            await place.until(lambda place=place: place.shared.counters.shared)
        yield [first, second]


@pytest.fixture
async def engine(gateways) -> AsyncIterator[Upstream]:
    engine = Upstream(answered("fine", 90, 10))
    port = await engine.start()
    for place in gateways:
        place.know_replicas(replica(1, port))
    yield engine
    await engine.stop()
