"""A judge of the route, for calls that are moderated."""

import pytest

from control.routes.snapshot import ModerationInfo
from tests.gateway.place import route
from tests.gateway.upstream import Script, Upstream


@pytest.fixture
async def judge(place):
    """`judge(script, …, after=True)`: a judge of the route that answers in turn."""
    started: list[Upstream] = []

    async def start(*scripts: Script, **rules) -> Upstream:
        upstream = Upstream(*scripts)
        url = f"http://127.0.0.1:{await upstream.start()}/judge"
        started.append(upstream)
        place.know(route(moderation=ModerationInfo(url, **({"timeout_ms": 60_000} | rules))))
        return upstream

    yield start
    for upstream in started:
        await upstream.stop()
