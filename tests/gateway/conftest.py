"""A gateway on real sockets for each test, and upstreams that answer what they are told."""

from collections.abc import AsyncIterator

import pytest

from tests.gateway.place import Place, replica
from tests.gateway.upstream import Script, Upstream


@pytest.fixture
async def place(tmp_path) -> AsyncIterator[Place]:
    async with Place(tmp_path) as place:
        yield place


@pytest.fixture
async def engines(place):
    """`engines(script, …)` starts an upstream and makes it a ready replica of `place`."""
    started: list[Upstream] = []

    async def engine(*scripts: Script, **changes) -> Upstream:
        upstream = Upstream(*scripts)
        await upstream.start()
        started.append(upstream)
        upstream.info = replica(len(started), upstream.port, **changes)
        upstream.served = upstream.info.served_name
        place.know_replicas(*(one.info for one in started))
        return upstream

    yield engine
    for upstream in started:
        await upstream.stop()
