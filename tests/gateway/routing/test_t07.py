"""T07: sessions over several gateways, which tell each other nothing."""

import asyncio
import contextlib

import httpx

from tests.gateway.place import KEY, Place, chat, replica, route
from tests.gateway.upstream import Upstream, answered

SESSIONS, TURNS, GATEWAYS = 100, 10, 3
STICKY = route("chat", policy="sticky")


class Sessions:
    def __init__(self, places: list[Place], client: httpx.AsyncClient) -> None:
        self._places = places
        self._client = client
        self._asked = 0

    async def turn(self, session: int) -> int:
        """The replica that answered; any failure fails the test."""
        place = self._places[self._asked % len(self._places)]
        self._asked += 1
        headers = {"authorization": f"Bearer {KEY}", "x-weir-conversation": f"session {session}"}
        url = f"{place.url}/v1/chat/completions"
        answer = await self._client.post(url, json=chat(), headers=headers)
        assert answer.status_code == 200
        return int(answer.json()["choices"][0]["message"]["content"])

    async def all(self) -> dict[int, int]:
        ids = []
        for first in range(0, SESSIONS, 20):
            ids += await asyncio.gather(*(self.turn(n) for n in range(first, first + 20)))
        return dict(enumerate(ids))


async def test_t07_sessions_stay_move_with_their_replica_and_move_little(tmp_path):
    engines = [Upstream(answered(str(n))) for n in range(1, 6)]
    infos = [replica(n, await engine.start()) for n, engine in enumerate(engines, 1)]
    async with contextlib.AsyncExitStack() as stack:
        places = [
            await stack.enter_async_context(Place(tmp_path / str(n))) for n in range(GATEWAYS)
        ]
        client = await stack.enter_async_context(httpx.AsyncClient(timeout=30))
        sessions = Sessions(places, client)
        for place in places:
            place.know(STICKY)
            place.know_replicas(*infos[:4])

        before = await sessions.all()
        for _ in range(TURNS - 1):
            assert await sessions.all() == before  # over all gateways
        assert set(before.values()) == {1, 2, 3, 4}

        await engines[1].stop()  # no gateway is told
        after = await sessions.all()  # no failed turn: each was asserted
        moved = {session for session in before if after[session] != before[session]}
        assert moved == {session for session in before if before[session] == 2}
        assert 0.10 <= len(moved) / SESSIONS <= 0.40  # about a quarter
        assert await sessions.all() == after

        for place in places:
            place.know_replicas(infos[0], *infos[2:])  # one is added
        added = await sessions.all()
        moved = {session for session in after if added[session] != after[session]}
        assert {added[session] for session in moved} == {5}
        assert len(moved) / SESSIONS <= 0.30
        for engine in engines:
            await engine.stop()


async def test_t07_an_overloaded_target_is_left_and_found_again(place, engines):
    place.know(STICKY)
    started = [await engines(answered(str(n)), slots=4) for n in (1, 2, 3, 4)]
    assert len(started) == 4
    body = chat(prompt_cache_key="mine")  # the body names it as well as the header

    async def turn() -> int:
        return int((await place.post(body)).json()["choices"][0]["message"]["content"])

    first = await turn()
    assert await turn() == first
    target = place.shared.replicas._live[first]
    target.in_flight += 4
    second = await turn()
    assert second != first
    assert await turn() == second  # the next in order, not any
    target.in_flight -= 4
    assert await turn() == first
