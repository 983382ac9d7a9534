"""Connections to a replica: at most its slots and a probe, and closed before it closes them."""

import asyncio

import pytest

from control.gateway.http1.pool import Pool
from tests.gateway.place import chat, replica
from tests.gateway.upstream import answered, streamed

REQUEST = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"


async def test_connections_keep_to_the_slots(place, engines):
    engine = await engines(streamed("a", "b", split=50), slots=4)
    answers = await asyncio.gather(*(place.post(chat(stream=True)) for _ in range(40)))
    assert {answer.status for answer in answers} == {200}
    assert len(engine.seen) == 40
    assert engine.connections_most <= 4 + 1


async def test_an_answer_that_is_all_there_gives_its_connection_up_for_a_call(place, engines):
    """Its engine does not end the connection after [DONE]."""
    engine = await engines(streamed("a", end="hold"), slots=2)
    for _ in range(6):
        assert (await place.post(chat(stream=True))).status == 200
    assert engine.connections_most <= 2 + 1


async def test_idle_ones_are_closed_before_the_engine_does(place, engines):
    engine = await engines(answered())
    await place.post(chat())
    assert engine.connections == 1
    place.push(4.5)  # engines keep theirs for 5 s
    await place.until(lambda: engine.connections == 0)
    assert place.shared.replicas.ejected() == 0


async def test_one_who_is_known_is_not_asked_before_each_connection(place, engines):
    engine = await engines(streamed("a"))
    for _ in range(5):
        await place.post(chat(stream=True))
    assert 1 <= engine.probes.count("/v1/models") < 5


class Reader:
    """An exchange that stops reading, as for a slow tenant, in the answer's last bytes."""

    def __init__(self, pool: Pool, *, stops: bool) -> None:
        self.ended, self.stops = asyncio.Event(), stops
        self.sending = pool.send(self, REQUEST)

    def on_head(self, status: int, headers: dict[bytes, bytes]) -> None:
        """Nothing of it is looked at."""

    def on_data(self, data: bytes) -> None:
        self.sending.pause(self.stops)

    def on_chunks(self, raw: bytes) -> bool:
        return False

    def on_end(self) -> None:
        self.ended.set()

    def on_failure(self, reason: str, *, sent: bool, reused: bool) -> None:
        raise AssertionError(reason)


async def test_a_connection_that_was_not_read_is_read_again_for_its_next_call(place, engines):
    engine = await engines(answered())
    [live] = place.shared.replicas.all()
    for stops in (True, False):
        await asyncio.wait_for(Reader(live.pool, stops=stops).ended.wait(), 30)
    assert (len(engine.seen), engine.connections_most) == (2, 1)


@pytest.mark.parametrize("changes", [{"port": 70_000}, {"host": "a" * 64 + ".example"}])
async def test_an_address_that_nobody_can_have_is_told_as_one_that_is_not_reached(place, changes):
    place.know_replicas(replica(1, **({"port": 1} | changes)))
    answer = await asyncio.wait_for(place.post(chat()), 30)
    assert (answer.status, answer.error["code"]) == (503, "server_is_overloaded")
    assert not place.shared.calls
